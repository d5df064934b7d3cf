#include "tests/support/golden_script.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/posix.h"
#include "gtest/gtest.h"

namespace mtrun::support {

namespace fs = std::filesystem;

ScriptCommand::ScriptCommand(const std::string& line) {
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(line, ' ', absl::SkipEmpty()))) {
    const size_t equals = part.find('=');
    if (name.empty()) {
      name = part;
    } else if (equals != std::string::npos) {
      options[part.substr(0, equals)] = part.substr(equals + 1);
    } else {
      words.push_back(part);
    }
  }
}

bool ScriptCommand::Has(const std::string& word) const {
  return options.contains(word) || std::count(words.begin(), words.end(), word) > 0;
}

int ScriptCommand::Int(const std::string& key, int otherwise) const {
  int value = otherwise;
  const auto found = options.find(key);
  const bool good = found == options.end() || absl::SimpleAtoi(found->second, &value);
  EXPECT_TRUE(good) << key;
  return value;
}

std::string ScriptCommand::Text(const std::string& key, const std::string& otherwise) const {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : found->second;
}

std::string ReplayTraces(const std::string& script,
                         const std::function<std::vector<std::string>(const std::string& line)>& run) {
  std::string output;
  bool in_trace = false;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(absl::StripSuffix(script, "\n"), '\n'))) {
    in_trace = !line.empty() && (in_trace || line == "----");
    if (in_trace) continue;  // the trace is replaced
    absl::StrAppend(&output, line, "\n");
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> trace = run(line);
    if (!trace.empty()) absl::StrAppend(&output, "----\n", absl::StrJoin(trace, "\n"), "\n");
  }
  return output;
}

void ExpectScripts(const std::string& folder, const std::string& prefix, size_t least,
                   const std::function<std::string(const std::string& script)>& play) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "MT_SOURCE_DIR must name the root of the sources (ctest sets it)";
  std::vector<fs::path> scripts;
  for (const auto& entry : fs::directory_iterator(fs::path(source) / folder)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, prefix) && absl::EndsWith(name, ".txt")) scripts.push_back(entry.path());
  }
  std::sort(scripts.begin(), scripts.end());
  ASSERT_GE(scripts.size(), least) << "in " << folder;
  for (const fs::path& path : scripts) {
    SCOPED_TRACE(path.filename().string());
    const auto script = ReadFile(path.string());
    ASSERT_TRUE(script.ok()) << script.status();
    const std::string now = play(*script);
    if (std::getenv("MTRUN_REWRITE") != nullptr) {
      std::ofstream(path) << now;
    } else {
      EXPECT_EQ(now, *script) << "MTRUN_REWRITE=1 writes what happens now";
    }
  }
}

}  // namespace mtrun::support
