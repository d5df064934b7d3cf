// Readers of options that need more than storing a value. Only for option_table.cc and the options*.cc files.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/settings.h"
#include "launcher/cli/option_table.h"

namespace mtrun::launcher {

/// Upper limit of settings in seconds: three years, which cannot overflow a TimePoint.
inline constexpr double kMaxSeconds = 1e8;

/// Returns the setting in the user's notation: "--nnodes", "PET_NNODES" or "nnodes in the --config file".
std::string Named(const Settings& settings, const std::string& name);
/// Returns an error such as "--nnodes: "3:1" is not allowed; it takes N or MIN:MAX".
absl::Status NotAllowed(const Settings& settings, const std::string& name, absl::string_view allowed);

/// Returns whether a flag, a variable or a file sets it.
inline bool IsGiven(const Settings& settings, const std::string& name) {
  return settings.IsSet(name) && settings.SourceOf(name) != SettingSource::kDefault;
}

/// Returns whether --trainer is given: mtrun knows more about trainers than about other programs.
inline bool RunsTrainer(const Settings& settings) { return !settings.Text("trainer").empty(); }

// Nodes, workers, program (options_program.cc).
absl::Status ReadNodes(const OptionContext& context, Options* options);
absl::Status ReadWorkers(const OptionContext& context, Options* options);
absl::Status ReadRole(const OptionContext& context, Options* options);
absl::Status ReadVirtualRank(const OptionContext& context, Options* options);
absl::Status ReadEntry(const OptionContext& context, Options* options);

/// Reads the question, if any, and its target (options_questions.cc). `rest`: all but mtrun's flags.
absl::Status ReadQuestion(const std::vector<std::string>& rest, Settings* settings, Options* options);
/// Reads a question's credentials and the doctor's settings from flags, environment and --config.
absl::Status ReadAskers(const Settings& settings, Options* options);

/// Checks that the job's id can be sent and displayed.
absl::Status CheckRunId(const Settings& settings);
/// Reads the back-end, endpoint, --rdzv_conf and --rdzv_id; after the nodes.
absl::Status ReadRendezvous(const OptionContext& context, Options* options);
absl::Status ReadStore(const OptionContext& context, Options* options);

// Failures and stopping (options_faults.cc).
absl::Status ReadRestarts(const OptionContext& context, Options* options);
absl::Status ReadShutdownTimeout(const OptionContext& context, Options* options);
absl::Status ReadHangNotice(const OptionContext& context, Options* options);
absl::Status ReadHangTimeout(const OptionContext& context, Options* options);
absl::Status ReadSignals(const OptionContext& context, Options* options);
absl::Status ReadPortRange(const OptionContext& context, Options* options);

// Other machines over ssh (options_ssh.cc).
bool NamesHosts(const Settings& settings);
/// Reads the settings of the starting end; does nothing if no hosts are given.
absl::Status ReadHosts(const OptionContext& context, Options* options);

// Output (options_output.cc).
absl::Status ReadPage(const OptionContext& context, Options* options);
absl::Status ReadPrefix(const OptionContext& context, Options* options);
absl::Status ReadStreams(const Settings& settings, const std::string& name, std::map<int, int>* streams);
absl::Status ReadLocalRanks(const Settings& settings, const std::string& name, std::set<int>* ranks);
/// Splits "a,b,,c" into "a" and "b,c".
std::vector<std::string> SplitTexts(const std::string& text);

}  // namespace mtrun::launcher
