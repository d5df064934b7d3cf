// How each worker of this node is started in a generation: program, environment, files, prefix, processors.
// Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/cli/options.h"
#include "launcher/cli/program.h"
#include "launcher/core/worker_environment.h"
#include "launcher/output/log_files.h"
#include "launcher/workers/numa.h"
#include "launcher/workers/worker_group.h"

namespace mtrun::launcher {

/// What workers keep open of mtrun's; -1 for none.
struct KeptFiles {
  int lease = -1;     // MTRUN_LEASE
  int presence = -1;  // the presence port's socket: whoever holds it keeps the kernel from refusing there
};

class LaunchPlan {
 public:
  /// The arguments must outlive it. `socket`: MTRUN_SOCKET; `timer_file`: TORCHELASTIC_TIMER_FILE, "" for
  /// none. Says on the log what it decides for all workers (threads, processors).
  LaunchPlan(const Options& options, const Program& program, LogFiles& log_files, std::string socket,
             std::string timer_file, const KeptFiles& kept);

  /// What workers get whatever their ranks are.
  EnvironmentMap CommonEnvironment() const { return launcher::CommonEnvironment(node_); }
  /// `member` is this node's place among the assignment's. A worker whose folder cannot be made runs without
  /// files.
  WorkerLaunch For(const rendezvous::Assignment& assignment, size_t member, int local_rank);

 private:
  void TieToProcessors();
  void ShowProgress(WorkerLaunch& launch) const;

  const Options& options_;
  const Program& program_;
  LogFiles& log_files_;
  KeptFiles kept_;
  NodeContext node_;
  std::vector<Binding> bindings_;  // empty: no worker is tied
};

}  // namespace mtrun::launcher
