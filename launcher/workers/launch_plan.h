// How to start each worker of this node in a generation: program, environment, files, prefix, processors. Not
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/cli/program.h"
#include "launcher/core/worker_environment.h"
#include "launcher/output/log_files.h"
#include "launcher/workers/numa.h"
#include "launcher/workers/worker_group.h"

namespace mtrun::launcher {

/// Descriptors of mtrun that workers keep open; -1 for none.
struct KeptFiles {
  int lease = -1;     // MTRUN_LEASE
  int presence = -1;  // the presence port's socket: while a process holds it the kernel does not refuse there
};

/// Returns the variables that tell workers the values of mtrun's flags, the same for all workers of the node.
/// Those that replace a user's variable only if it is unset are in MakeEnvironment.
EnvironmentMap FlagVariables(const Options& options);

class LaunchPlan {
 public:
  /// The arguments must outlive this object. `socket`: MTRUN_SOCKET; `timer_file`: TORCHELASTIC_TIMER_FILE,
  /// "" for none. Logs the decisions for all workers (threads, processors).
  LaunchPlan(const Options& options, const Program& program, LogFiles& log_files, std::string socket,
             std::string timer_file, const KeptFiles& kept);

  /// Returns the environment that is the same for all ranks.
  EnvironmentMap CommonEnvironment() const { return launcher::CommonEnvironment(node_); }
  /// `member`: this node's index in the assignment. If its folder cannot be made a worker runs without files.
  WorkerLaunch For(const rendezvous::Assignment& assignment, size_t member, int local_rank);

 private:
  void TieToProcessors();
  /// Looks up the interface with this node's address, once in each generation, if libraries need it.
  void ChooseInterface(const rendezvous::Assignment& assignment, const std::string& address);
  void ShowProgress(WorkerLaunch& launch) const;

  const Options& options_;
  const Program& program_;
  LogFiles& log_files_;
  KeptFiles kept_;
  NodeContext node_;
  bool said_interface_ = false;
  rendezvous::Generation looked_up_;  // the interface in node_ is for this generation
  std::vector<Binding> bindings_;     // empty: workers are not bound
};

}  // namespace mtrun::launcher
