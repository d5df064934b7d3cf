// What a run shows while it goes on: a line that stays in its place on a terminal, plain lines now and then
// elsewhere. The decision when and the text are pure; ProgressLine prints. Training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker_env.h"
#include "trainers/run/progress_text.h"

namespace mtrun::trainers {

/// Says when a line is due.
class ProgressPacer {
 public:
  /// `log_every` > 0: every so many steps. Else by time: the first line after a second (a terminal: at once),
  /// then every 5 s (a terminal: 0.2 s).
  ProgressPacer(bool terminal, int64_t log_every, TimePoint start);
  bool Due(int64_t finished_steps, TimePoint now);

 private:
  const Duration every_;
  const int64_t log_every_;
  TimePoint next_;
};

/// Where the line is seen.
struct Screen {
  enum class Kind {
    kPipe,      // a file or a program reads it: plain lines
    kTerminal,  // standard output is one
    kLauncher,  // mtrun shows it on one (kColumnsVariable)
  };
  Kind kind = Kind::kPipe;
  int columns = 0;  // kLauncher: that a line may have; a terminal is asked each time
  bool colours = false;
  bool operator==(const Screen&) const = default;
};

/// `terminal`: whether standard output is one.
Screen ScreenOf(const EnvironmentMap& environment, bool terminal);

/// Prints to standard output, or nowhere (`quiet`: all ranks but 0). On a terminal of its own it takes the
/// log's lines too, so that they come above the line that stays.
class ProgressLine {
 public:
  ProgressLine(bool quiet, const Screen& screen);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;

  /// Rank 0 may become another worker.
  void SetQuiet(bool quiet) { quiet_ = quiet; }
  bool terminal() const { return screen_.kind != Screen::Kind::kPipe; }
  /// Columns that text which stays should keep to; nothing where nobody cares.
  std::optional<int> columns() const;
  bool colours() const { return screen_.colours; }
  /// The line that stays, or one more where there is no terminal.
  void Show(const ProgressState& state);
  /// Another one in its place.
  void Show(const std::string& text);
  /// Text above it; ends with a newline of its own if it has none.
  void Print(const std::string& text);

 private:
  void Erase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Redraw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  bool quiet_;
  const Screen screen_;
  Mutex mu_;                                // other threads log
  std::string shown_ ABSL_GUARDED_BY(mu_);  // the line that stays
};

}  // namespace mtrun::trainers
