// The commands of mtdata: their interface, and the commands that are in files of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
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
  std::vector<std::string> words;       // names of its arguments besides flags: {"SOURCE", "DEST"}
  /// Runs the command with its flags and as many arguments as `words`; returns the exit status.
  int (*run)(const Settings& settings, const std::vector<std::string>& words);
  std::string give = "";  // what to give, if another number of arguments is given; "": their names
};

/// Runs the command that `args`, which exclude the program's name, begin with. Its flags may be before, between
/// and after its other arguments. Exit status: 0, 1 failure, 2 usage, 128+signal if stopped.
int RunCommand(const std::vector<std::string>& args);

}  // namespace mtrun::datasets

namespace mtrun::mtdata {

datasets::Command ServeCommand();
datasets::Command FetchCommand();
datasets::Command WeightsCommand();
/// Prints the key that permits reading, for MTRUN_DATA_KEY.
datasets::Command KeyCommand();
/// Prints the bearer token for /metrics.
datasets::Command BearerCommand();

}  // namespace mtrun::mtdata
