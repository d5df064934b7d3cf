// One worker: a program in a session and process group of its own. Not thread-safe. Make and destroy it on a
// thread that outlives the workers (PR_SET_PDEATHSIG fires when the starting thread ends).
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
  std::string file;                     // executable, as a resolved path
  std::vector<std::string> argv;        // argv[0] included
  EnvironmentMap environment;           // complete
  std::vector<int> cpus = {};           // processors to run on; empty: same as this process
  std::optional<int> memory_node = {};  // preferred NUMA node for memory
  int input = -1;                       // its standard input; -1: inherited
  std::vector<int> kept = {};           // the only descriptors besides 0 to 2 that stay open
  // Use a terminal for standard output or error instead of a pipe, with the size of this process's terminal.
  bool out_terminal = false, err_terminal = false;
};

struct ExitStatus {
  int code = 0;  // valid when signal is 0
  int signal = 0;
};

/// A worker process. The leader stays a zombie until destruction, so that its pid and group are not reused.
class Process {
 public:
  /// Starts a program. Standard output and error are pipes or terminals that pass every byte unchanged; the
  /// limit of open files is mtrun's original one. A failed exec is an error here, not an exit of the worker.
  static absl::StatusOr<Process> Start(const ProcessSpec& spec);
  /// Calls `start` with standard output and error; it returns the pid of a child that leads a session.
  static absl::StatusOr<Process> StartBy(
      const std::function<absl::StatusOr<pid_t>(int output, int error)>& start, const ProcessSpec& spec);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  /// Kills the group and reaps the leader.
  ~Process();

  pid_t pid() const { return pid_; }
  /// The ends that mtrun reads; each can be taken once.
  UniqueFd TakeOutput() { return std::move(output_); }
  UniqueFd TakeError() { return std::move(error_); }

  /// Returns the leader's exit status; nullopt while it runs.
  std::optional<ExitStatus> Poll() const;
  /// Sends `signal` to the whole group.
  void Signal(int signal) const;
  /// Reaps the leader, which has exited, and leaves its group running. Must be the last call.
  void Leave();

 private:
  Process() = default;

  pid_t pid_ = -1;
  UniqueFd output_, error_;
};

}  // namespace mtrun::launcher
