// Carries the workers' standard output and error to their log files, byte by byte, and to the console, line
// by line with a prefix. A thread of its own reads and writes files; a file that is slow slows its worker, it
// loses nothing. A full disk is warned of once and stops nothing but the logs.
#pragma once

#include <cstdint>
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

namespace mtrun::launcher {

struct WorkerStreams {
  int local_rank = 0;
  std::string prefix;  // "[default0]:"
  UniqueFd out, err;   // what mtrun reads
  OutputPlan plan;
  bool raw = false;                // to the console byte by byte, without the prefix
  size_t most_log_bytes = 0;       // of each of its own files, in two parts; 0: no bound
  std::string out_file, err_file;  // "" for none; appended to
  // Lines that hold one of the texts also go to a file of the whole attempt, with their prefix.
  std::vector<std::string> out_filters, err_filters;
  std::string filtered_out_file, filtered_err_file;
  bool lives_on = false;       // its writer belongs to no generation: CloseAll leaves it open
  bool breaks_lines = false;   // on a terminal, where they are too long for it; files get them whole
  bool thins_updates = false;  // of standard output: a file gets one of its updates every 5 s, as a line
};

/// Methods may be called from any thread.
class OutputMux {
 public:
  /// Writes to the descriptors `console_out` and `console_err`, which stay the caller's. `hurry`: see
  /// Console.
  OutputMux(int console_out, int console_err, std::function<bool()> hurry = {});
  /// Writes what has come so far, for as long as that goes on and there is no hurry, then forgets all
  /// streams.
  ~OutputMux();
  OutputMux(const OutputMux&) = delete;

  /// What the lines go to; may outlive this object.
  const std::shared_ptr<Console>& console() const;
  /// Opens the files; an error names the file.
  absl::Status Add(WorkerStreams streams);
  /// The last lines of the worker's standard error, everything included that it had written before the call
  /// (unless the console is blocked for longer than `patience`).
  std::string TailOfError(int local_rank, Duration patience);
  /// The last traceback of Python's that it wrote there; nothing: it has written none. As above.
  std::optional<ErrorTail::Traceback> LastTraceback(int local_rank, Duration patience);
  /// Writes what has come so far and closes all streams that were added before: the generation is over. After
  /// `patience` it comes back, and both happen later.
  void CloseAll(Duration patience);
  /// The same at the job's end: it waits for as long as files and console take something and there is no
  /// hurry, `patience` without that. What is still open is given to a process that carries it to the same
  /// files and console until nobody writes any more: processes that the workers have started outlive this
  /// one. Line by line work ends here: their bytes go without prefix.
  void LeaveBehind(Duration patience);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace mtrun::launcher
