// Carries the workers' standard output and error to their log files and, line by line with a prefix, to the
// console. A thread of its own reads and writes, so that a console that stands still (Ctrl-S, a full pipe)
// stops nothing but output.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/posix.h"
#include "launcher/options.h"

namespace mtrun::launcher {

struct WorkerStreams {
  int local_rank = 0;
  std::string prefix;  // "[default0]:"
  UniqueFd out, err;   // what mtrun reads
  OutputPlan plan;
  std::string out_file, err_file;  // "" for none; appended to
};

/// Methods may be called from any thread.
class OutputMux {
 public:
  /// Writes to the descriptors `console_out` and `console_err`, which stay the caller's.
  OutputMux(int console_out, int console_err);
  /// Writes what has come so far, then forgets all streams. Bounded: a console that stands still is given up.
  ~OutputMux();
  OutputMux(const OutputMux&) = delete;

  /// Opens the files; an error names the file.
  absl::Status Add(WorkerStreams streams);
  /// The last lines of the worker's standard error, everything included that it had written before the call
  /// (unless the console stands still for longer than `patience`).
  std::string TailOfError(int local_rank, Duration patience);
  /// Writes what has come so far and closes all streams: the generation is over.
  void CloseAll(Duration patience);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace mtrun::launcher
