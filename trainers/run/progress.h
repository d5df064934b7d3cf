// The line that shows how far a run is: rewritten in place on a terminal, otherwise a line now and then. The
// decision when and the text are pure; ProgressLine prints. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace mtrun::trainers {

struct ProgressState {
  int64_t epoch = 1, epochs = 1;  // 1-based
  int64_t step = 0, steps = 0;    // finished, of the whole run
  double loss = 0, learning_rate = 0;
  double images_per_second = 0;
  double seconds_left = 0;
};

/// `epoch 2/10  step 1234/31250  loss 1.2345  lr 0.001  8612 images/s  2 min 05 s left`.
std::string ToText(const ProgressState& state);

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

/// Prints to standard output, or nowhere (`quiet`: all ranks but 0).
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);

  /// Rank 0 may become another worker.
  void SetQuiet(bool quiet) { quiet_ = quiet; }
  bool terminal() const { return terminal_; }
  /// The passing line.
  void Show(const std::string& text);
  /// Text that stays; ends with a newline of its own if it has none.
  void Print(const std::string& text);

 private:
  void Erase();

  bool quiet_;
  const bool terminal_;
  size_t shown_ = 0;  // columns of the passing line
};

}  // namespace mtrun::trainers
