// A Python interpreter that has imported a program's modules and forks workers, which start at the program's
// first line. It runs beside the workers until the agent exits. Not thread-safe; use it on the thread that
// starts workers (see process.h).
//
// A worker is a grandchild of it whose parent has exited, so that it becomes the agent's own child: its exit,
// signals, descriptors and environment are those of a worker started with exec.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/workers/process.h"

namespace mtrun::launcher {

class WarmPython {
 public:
  /// Starts to import `modules` in the interpreter `python`. `environment`: the part of the workers'
  /// environment that libraries read while they are loaded.
  static absl::StatusOr<std::unique_ptr<WarmPython>> Start(const std::string& python,
                                                           EnvironmentMap environment,
                                                           const std::vector<std::string>& modules);

  /// Returns true if it is alive and has imported everything.
  bool IsReady();
  bool IsAlive() const { return !process_.Poll(); }
  pid_t pid() const { return process_.pid(); }
  /// Its standard output and error; each can be taken once.
  UniqueFd TakeOutput() { return process_.TakeOutput(); }
  UniqueFd TakeError() { return process_.TakeError(); }

  /// Like Process::Start with a spec whose argv is {python, "-u", program...}, but ignores the memory node.
  /// kUnavailable if the interpreter does not answer; it is unusable then.
  absl::StatusOr<Process> Fork(const ProcessSpec& spec);

 private:
  WarmPython(Process process, UniqueFd socket) : process_(std::move(process)), socket_(std::move(socket)) {}
  absl::StatusOr<pid_t> Ask(const ProcessSpec& spec, int output, int error);

  Process process_;
  UniqueFd socket_;
  bool ready_ = false;
};

}  // namespace mtrun::launcher
