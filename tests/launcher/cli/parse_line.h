// Parses a test's command line.
#pragma once

#include <string>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Parses `line`, words separated by blanks, by default for a machine with 6 cores and no GPU.
inline absl::StatusOr<Options> Parse(const std::string& line, const EnvironmentMap& environment = {},
                                     MachineFacts machine = {6, 0}) {
  return ParseOptions(absl::StrSplit(line, ' ', absl::SkipEmpty()), environment, machine);
}

/// Returns the error of a line that must not parse.
inline std::string ErrorOf(const std::string& line, const EnvironmentMap& environment = {}) {
  const auto options = Parse(line, environment);
  EXPECT_FALSE(options.ok()) << line;
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(options.status().message());
}

}  // namespace mtrun::launcher
