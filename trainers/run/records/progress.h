// Progress display of a run: a status line that is redrawn in place on a terminal, plain lines now and then
// elsewhere. Timing and text are pure; ProgressLine prints. Training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker_env.h"
#include "trainers/run/records/progress_text.h"

namespace mtrun::trainers {

/// Decides when a line is due.
class ProgressPacer {
 public:
  /// If `log_every` > 0, a line is due every `log_every` steps. If not, it is due by time: first after a
  /// second (on a terminal: at once), then every 5 s (on a terminal: 0.2 s).
  ProgressPacer(bool terminal, int64_t log_every, TimePoint start);
  bool Due(int64_t finished_steps, TimePoint now);

 private:
  const Duration every_;
  const int64_t log_every_;
  TimePoint next_;
};

/// Destination of the progress display.
struct Screen {
  enum class Kind {
    kPipe,      // a file, or read by a program: plain lines
    kTerminal,  // standard output is a terminal
    kLauncher,  // mtrun shows it on a terminal (kColumnsVariable)
  };
  Kind kind = Kind::kPipe;
  int columns = 0;  // kLauncher: width of a line; a terminal is asked each time
  bool colours = false;
  bool operator==(const Screen&) const = default;
};

/// Returns the screen. `terminal`: whether standard output is a terminal.
Screen ScreenOf(const EnvironmentMap& environment, bool terminal);

/// Prints to standard output, or nowhere if `quiet`. On its own terminal it also prints the
/// log's lines, so that they appear above the status line.
class ProgressLine {
 public:
  ProgressLine(bool quiet, const Screen& screen);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;

  /// Changes the output, because rank 0 can become another worker.
  void SetQuiet(bool quiet) { quiet_ = quiet; }
  bool shows() const { return !quiet_; }
  bool terminal() const { return screen_.kind != Screen::Kind::kPipe; }
  /// Returns the width for printed text; nothing if it does not matter.
  std::optional<int> columns() const;
  bool colours() const { return screen_.colours; }
  /// Shows the status line, or prints one more line if there is no terminal.
  void Show(const ProgressState& state);
  /// Shows `text` in place of the status line.
  void Show(const std::string& text);
  /// Prints text above the status line, and a newline if it ends with none.
  void Print(const std::string& text);

 private:
  void Erase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Redraw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  bool quiet_;
  const Screen screen_;
  Mutex mu_;                                // other threads log
  std::string shown_ ABSL_GUARDED_BY(mu_);  // the status line
};

}  // namespace mtrun::trainers
