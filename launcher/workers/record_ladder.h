// Decides how long the report of a failure waits for a worker that has recorded an earlier error and still
// runs. The worker exits by itself, or gets SIGTERM, then SIGKILL; if it survives that (in an uninterruptible
// kernel state) the wait ends. A value; the time is an argument.
#pragma once

#include <optional>

#include "base/clock.h"

namespace mtrun::launcher {

class RecordLadder {
 public:
  enum class Rung { kWait, kTerminate, kKill, kReport };

  /// `timeout`: duration of each rung.
  explicit RecordLadder(Duration timeout) : patience_(timeout) {}

  /// Returns the action that is due: kTerminate and kKill once, then always kReport. Starts the timer.
  Rung At(TimePoint now);
  /// When the next rung is due; nullopt before the first call and after the last rung.
  const std::optional<TimePoint>& deadline() const { return deadline_; }

 private:
  Duration patience_;
  Rung last_ = Rung::kWait;
  std::optional<TimePoint> deadline_;
};

}  // namespace mtrun::launcher
