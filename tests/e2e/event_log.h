// Reads event logs (--event_log) for end-to-end tests.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/support/program.h"

namespace mtrun::e2e {

/// Returns the records of external calls; if several nodes write to the file, those of `host`.
inline std::vector<nlohmann::json> CallsIn(const std::string& path, const std::string& host = "") {
  std::vector<nlohmann::json> calls;
  const std::string text = support::ReadText(path);
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n', absl::SkipEmpty()))) {
    const auto record = nlohmann::json::parse(line);
    if (record["event"] != "control_call" || (!host.empty() && record["host"] != host)) continue;
    calls.push_back(record);
  }
  return calls;
}

}  // namespace mtrun::e2e
