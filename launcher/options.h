// mtrun's command line as one value: flags over environment (PET_*) over the `mtrun:` section of --config
// over defaults. Pure apart from reading the --config file: what the machine has is an argument.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_env.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// What --nproc_per_node auto|cpu|gpu may count.
struct MachineFacts {
  int cpus = 1;
  int gpus = 0;  // visible to this process
};

/// Where one stream of one worker goes, from --redirects and --tee.
struct StreamTargets {
  bool file = true;
  bool console = true;
  bool operator==(const StreamTargets&) const = default;
};
struct OutputPlan {
  StreamTargets out, err;
  bool operator==(const OutputPlan&) const = default;
};

/// What every worker runs.
struct EntryPoint {
  std::string trainer = {};             // --trainer NAME, "" for a program
  std::vector<std::string> words = {};  // program (or module) and its arguments; with a trainer its arguments
  bool module = false;
  bool no_python = false;
  bool operator==(const EntryPoint&) const = default;
};

struct Options {
  enum class Act { kRun, kHelp, kVersion };
  Act act = Act::kRun;
  rendezvous::JobSettings job;
  int workers = 1;
  std::string endpoint;  // "host:port"; standalone: "127.0.0.1:0"
  bool standalone = false;
  bool run_id_given = false;
  std::optional<bool> is_host;
  std::optional<int> node_rank;
  Duration reconnect_timeout = Duration::zero();  // zero: for ever
  bool hold_port = true;
  bool insecure = false;  // --insecure; a loopback endpoint needs no token either way
  std::string local_addr;
  std::string role = "default";
  std::string log_dir;  // "" = a temporary folder; "/dev/null" = no files
  Duration shutdown_timeout = std::chrono::seconds(30);
  std::map<int, int> redirects, tee;  // local rank (-1: all) -> 0 none, 1 stdout, 2 stderr, 3 both
  EntryPoint entry;

  /// Files and console for one worker. By default both; --redirects alone takes a stream off the console.
  OutputPlan OutputOf(int local_rank) const;
};

/// `args` without the program's own name. kInvalidArgument names flag, value and what is allowed. `trainers`
/// are the names of the trainers that were found: their sections may stand in the --config file.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const EnvironmentMap& environment,
                                     const MachineFacts& machine, const std::vector<std::string>& trainers);

/// Text of --help.
std::string HelpText();

/// Number of GPUs left of `devices` by CUDA_VISIBLE_DEVICES: entries count up to the first one that names no
/// device.
int VisibleGpus(int devices, const EnvironmentMap& environment);

}  // namespace mtrun::launcher
