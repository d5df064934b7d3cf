// An interpreter that has imported what a Python program needs, and of which workers are forked: they begin
// with the program's first line. It runs beside the workers for as long as the agent does. Not thread-safe;
// on the thread that starts workers (see process.h).
//
// A worker is a grandchild of it whose parent has ended, so that it becomes the agent's own child: its death,
// signals, descriptors and environment are those of a worker that was executed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/workers/process.h"

namespace mtrun::launcher {

class WarmPython {
 public:
  /// Begins to import `modules`; `python` is the interpreter's file, `environment` that of the workers as far
  /// as libraries read it while they are loaded.
  static absl::StatusOr<std::unique_ptr<WarmPython>> Start(const std::string& python,
                                                           EnvironmentMap environment,
                                                           const std::vector<std::string>& modules);

  /// True once everything is imported, and while it lives.
  bool IsReady();
  bool IsAlive() const { return !process_.Poll(); }
  pid_t pid() const { return process_.pid(); }
  /// Its standard output and error; each may be taken once.
  UniqueFd TakeOutput() { return process_.TakeOutput(); }
  UniqueFd TakeError() { return process_.TakeError(); }

  /// As Process::Start of a spec whose argv is {python, "-u", program...}; where the worker's memory lies is
  /// not chosen. kUnavailable when the interpreter does not answer; it is of no more use then.
  absl::StatusOr<Process> Fork(const ProcessSpec& spec);

 private:
  WarmPython(Process process, UniqueFd socket) : process_(std::move(process)), socket_(std::move(socket)) {}
  absl::StatusOr<pid_t> Ask(const ProcessSpec& spec, int output, int error);

  Process process_;
  UniqueFd socket_;
  bool ready_ = false;
};

}  // namespace mtrun::launcher
