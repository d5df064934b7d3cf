// One worker: a program in a session and process group of its own. Not thread-safe; make and destroy it on
// the thread that stays alive as long as the workers shall (PR_SET_PDEATHSIG fires when the starting thread
// ends).
#pragma once

#include <sys/types.h>

#include <functional>
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
  int input = -1;                       // its standard input; -1: that of this process
  std::vector<int> kept = {};           // descriptors that stay open besides the first three, and no others
  // Standard output, error on a terminal of its own instead of a pipe, as large as that of this process.
  bool out_terminal = false, err_terminal = false;
};

struct ExitStatus {
  int code = 0;  // valid when signal is 0
  int signal = 0;
};

/// The leader stays a zombie until destruction, so that its pid (and group number) cannot be given to another
/// process meanwhile.
class Process {
 public:
  /// Standard output and error are pipes or terminals that pass every byte unchanged; the limit of open files
  /// is what mtrun began with. An exec that fails is an error here, not an exit of the worker.
  static absl::StatusOr<Process> Start(const ProcessSpec& spec);
  /// `start` makes it: given its standard output and error it returns the pid of a child of this process,
  /// which leads a session.
  static absl::StatusOr<Process> StartBy(
      const std::function<absl::StatusOr<pid_t>(int output, int error)>& start, const ProcessSpec& spec);
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
  /// Reaps the leader, which has ended, and leaves its group alone. Nothing else may be called after it.
  void Leave();

 private:
  Process() = default;

  pid_t pid_ = -1;
  UniqueFd pidfd_, output_, error_;
};

}  // namespace mtrun::launcher
