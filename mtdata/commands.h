// The commands of mtdata that need no network, and the interface to add others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/help_page.h"
#include "base/settings.h"

namespace mtrun::datasets {

/// Exit statuses of a failed command.
inline constexpr int kFailure = 1, kUsage = 2;
/// Prints why a command failed to standard error; returns `code`.
int Complain(int code, const absl::Status& status);
/// Writes the output of a command to standard output; returns the exit status.
int Answer(std::string_view text);

struct Command {
  std::string name;
  HelpPage help;                        // what `mtdata NAME --help` prints above the flags
  std::vector<SettingSpec> (*specs)();  // its flags
  /// Runs the command with the arguments after its name; returns the exit status.
  int (*run)(const std::vector<std::string>& args);
};

/// Runs import, info, show, verify, or one of `more`; `args` excludes the program's name. Exit status: 0, 1
/// failure, 2 usage, 128+signal if stopped.
int RunCommand(const std::vector<std::string>& args, absl::Span<const Command> more);

}  // namespace mtrun::datasets
