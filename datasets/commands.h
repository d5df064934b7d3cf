// The commands of mtdata that need no network, and how others join them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/settings.h"

namespace mtrun::datasets {

/// Reads the flags of `args`, which may stand before, between and after the words; the words.
absl::StatusOr<std::vector<std::string>> WordsOf(Settings& settings, std::vector<std::string> args);
/// What a command that fails exits with.
inline constexpr int kFailure = 1, kUsage = 2;
/// Says on standard error why a command fails; `code`.
int Complain(int code, const absl::Status& status);
/// Puts what a command answers on standard output; its exit status.
int Answer(std::string_view text);

struct Command {
  std::string name;
  std::string usage;                   // its lines of the help's usage, indented
  std::function<std::string()> flags;  // their help
  /// What follows its name; the exit status.
  std::function<int(const std::vector<std::string>& args)> run;
};

/// import, info, show and verify, or one of `more`; without the program's name. Exit status: 0, 1 failure, 2
/// usage, 128+signal when stopped.
int RunCommand(const std::vector<std::string>& args, absl::Span<const Command> more);

}  // namespace mtrun::datasets
