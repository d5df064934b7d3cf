// One worker: a program in a session and process group of its own. Not thread-safe; make and destroy it on
// the thread that stays alive as long as the workers shall (PR_SET_PDEATHSIG fires when the starting thread
// ends).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "base/worker_env.h"

namespace mtrun::launcher {

struct ProcessSpec {
  std::string file;                     // executable, found already
  std::vector<std::string> argv;        // argv[0] included
  EnvironmentMap environment;           // all of it
  std::vector<int> cpus = {};           // what it may run on; none: what this process may
  std::optional<int> memory_node = {};  // NUMA node whose memory it prefers
  std::vector<int> kept = {};           // descriptors that stay open besides the first three, and no others
};

struct ExitStatus {
  int code = 0;  // valid when signal is 0
  int signal = 0;
};

/// The leader stays a zombie until destruction, so that its pid (and group number) cannot be given to another
/// process meanwhile.
class Process {
 public:
  /// Standard input is inherited, output and error are pipes; the limit of open files is what mtrun began
  /// with. An exec that fails is an error here, not an
  /// exit of the worker.
  static absl::StatusOr<Process> Start(const ProcessSpec& spec);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  /// Kills the group and reaps the leader.
  ~Process();

  pid_t pid() const { return pid_; }
  /// Readable once the leader has ended.
  int pidfd() const { return pidfd_.get(); }
  /// The ends that mtrun reads; each may be taken once.
  UniqueFd TakeOutput() { return std::move(output_); }
  UniqueFd TakeError() { return std::move(error_); }

  /// How the leader ended, nothing while it runs.
  std::optional<ExitStatus> Poll() const;
  /// To the whole group.
  void Signal(int signal) const;

 private:
  Process() = default;

  pid_t pid_ = -1;
  UniqueFd pidfd_, output_, error_;
};

}  // namespace mtrun::launcher
