// Golden scripts: text files of commands, each followed by its expected results. A test plays the commands
// and compares; MTRUN_REWRITE=1 writes the actual results instead.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mtrun::support {

/// A parsed command line: its name, plain words and key=value options.
struct ScriptCommand {
  explicit ScriptCommand(const std::string& line);

  std::string name;
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  bool Has(const std::string& word) const;               ///< as a word or as an option
  int Int(const std::string& key, int otherwise) const;  ///< fails the test if it is not a number
  std::string Text(const std::string& key, const std::string& otherwise) const;
};

/// Plays a script whose traces follow "----", up to the next empty line; returns the script with the actual
/// traces. Empty lines and lines with # are kept. `run` returns a command's trace, in lines.
std::string ReplayTraces(const std::string& script,
                         const std::function<std::vector<std::string>(const std::string& line)>& run);

/// Plays each file `<prefix>*.txt` of `folder` (below the source tree's root, $MT_SOURCE_DIR) and expects an
/// unchanged result; fails if there are fewer than `least`.
void ExpectScripts(const std::string& folder, const std::string& prefix, size_t least,
                   const std::function<std::string(const std::string& script)>& play);

}  // namespace mtrun::support
