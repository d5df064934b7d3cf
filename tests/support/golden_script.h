// Golden scripts: text files of commands, each followed by what happened then. A test plays the commands and
// compares; MTRUN_REWRITE=1 writes what happens now instead.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mtrun::support {

/// A command's line taken apart: its name, plain words and key=value options.
struct ScriptCommand {
  explicit ScriptCommand(const std::string& line);

  std::string name;
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  bool Has(const std::string& word) const;               ///< as a word or as an option
  int Int(const std::string& key, int otherwise) const;  ///< fails the test on what is no number
  std::string Text(const std::string& key, const std::string& otherwise) const;
};

/// Plays a script whose traces stand behind "----", up to the next empty line: the script as it would be if
/// what happens now were right. Empty lines and lines with # stay. `run` returns a command's trace, in lines.
std::string ReplayTraces(const std::string& script,
                         const std::function<std::vector<std::string>(const std::string& line)>& run);

/// Plays each file `<prefix>*.txt` of `folder` (below the source tree's root, which MT_SOURCE_DIR names) and
/// expects it to come out as it is; fails when there are fewer than `least`.
void ExpectScripts(const std::string& folder, const std::string& prefix, size_t least,
                   const std::function<std::string(const std::string& script)>& play);

}  // namespace mtrun::support
