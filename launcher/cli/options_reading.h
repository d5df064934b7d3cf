// Readers of options that are more than a value; shared by option_table.cc and the options*.cc files only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/settings.h"
#include "launcher/cli/option_table.h"

namespace mtrun::launcher {

/// Of what people give in seconds: three years, and a point of time so far ahead can still be counted.
inline constexpr double kMostSeconds = 1e8;

/// The setting as its user gave it: "--nnodes", "PET_NNODES" or "nnodes in the --config file".
std::string Named(const Settings& settings, const std::string& name);
/// "--nnodes: "3:1" is not allowed; it takes N or MIN:MAX".
absl::Status NotAllowed(const Settings& settings, const std::string& name, absl::string_view allowed);

/// By a flag, a variable or a file.
inline bool IsGiven(const Settings& settings, const std::string& name) {
  return settings.IsSet(name) && settings.SourceOf(name) != SettingSource::kDefault;
}

/// --trainer: of trainers more is known than of other programs.
inline bool RunsTrainer(const Settings& settings) { return !settings.Text("trainer").empty(); }

// Nodes, workers, program (options_program.cc).
absl::Status ReadNodes(const OptionContext& context, Options* options);
absl::Status ReadWorkers(const OptionContext& context, Options* options);
absl::Status ReadRole(const OptionContext& context, Options* options);
absl::Status ReadVirtualRank(const OptionContext& context, Options* options);
absl::Status ReadEntry(const OptionContext& context, Options* options);

/// Which question is asked, if any, and of whom (options_questions.cc). `rest`: what is not mtrun's flags.
absl::Status ReadQuestion(const std::vector<std::string>& rest, Settings* settings, Options* options);
/// As whom a question is asked, and what the doctor looks at: from flags, environment and --config as ever.
absl::Status ReadAskers(const Settings& settings, Options* options);

/// Whether the job's id can be sent and shown.
absl::Status CheckRunId(const Settings& settings);
/// Back-end, endpoint, --rdzv_conf, --rdzv_id; after the nodes.
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
/// All that the end which starts the others needs; nothing where no hosts are named.
absl::Status ReadHosts(const OptionContext& context, Options* options);

// Output (options_output.cc).
absl::Status ReadPrefix(const OptionContext& context, Options* options);
absl::Status ReadStreams(const Settings& settings, const std::string& name, std::map<int, int>* streams);
absl::Status ReadLocalRanks(const Settings& settings, const std::string& name, std::set<int>* ranks);
/// "a,b,,c" is "a" and "b,c".
std::vector<std::string> SplitTexts(const std::string& text);

}  // namespace mtrun::launcher
