// Copies the workers' standard output and error to their log files, byte by byte, and to the console, line by
// line with a prefix, as StreamOutput decides. Its own thread reads and writes files; a slow file delays its
// worker but loses nothing. A full disk is reported once and affects only the logs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/posix.h"
#include "launcher/cli/options.h"
#include "launcher/output/console.h"
#include "launcher/output/error_tail.h"
#include "launcher/output/log_files.h"

namespace mtrun::launcher {

struct WorkerStreams {
  int local_rank = 0;
  std::string prefix;  // "[default0]:"
  UniqueFd out, err;   // read ends
  OutputPlan plan;
  bool raw = false;           // to the console unchanged, without the prefix
  size_t most_log_bytes = 0;  // limit per log file, in two parts; 0: none
  WorkerFiles files;          // those of the output are appended to
  // Lines with one of the texts also go to the filtered file of the whole attempt, with their prefix.
  std::vector<std::string> out_filters, err_filters;
  bool lives_on = false;       // the writer belongs to no generation: CloseAll keeps it
  bool breaks_lines = false;   // wrap long lines on a terminal; files get them whole
  bool thins_updates = false;  // of stdout: a file gets one update every 5 s, as a line
};

/// Methods may be called from any thread.
class OutputMux {
 public:
  /// Writes to the descriptors `console_out` and `console_err`, which the caller owns. `hurry`: see Console.
  OutputMux(int console_out, int console_err, std::function<bool()> hurry = {});
  /// Writes the output received so far while that progresses and `hurry` is false, then drops all streams.
  ~OutputMux();
  OutputMux(const OutputMux&) = delete;

  /// Destination of the lines; may outlive this object.
  const std::shared_ptr<Console>& console() const;
  /// Opens the files and adds the streams; an error names the file.
  absl::Status Add(WorkerStreams streams);
  /// Returns the last lines of the worker's standard error, including everything that it wrote before the
  /// call (unless the console is blocked for longer than `timeout`).
  std::string TailOfError(int local_rank, Duration timeout);
  /// Returns its last Python traceback there, or nullopt. Waits like TailOfError.
  std::optional<ErrorTail::Traceback> LastTraceback(int local_rank, Duration timeout);
  /// Writes the output received so far and closes all streams that were added before, because the generation
  /// is over. Returns after `timeout` at the latest; the work then completes later.
  void CloseAll(Duration timeout);
  /// Does the same at the job's end, but waits as long as files and console make progress and `hurry` is
  /// false, at most `timeout` without progress. Streams that are still open are passed to a process that
  /// copies them to the same files and console until all writers have closed them, because the workers' child
  /// processes outlive this one. They are copied bytewise, without prefix.
  void HandOff(Duration timeout);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace mtrun::launcher
