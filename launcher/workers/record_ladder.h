// How long the report of a failure waits for a worker that has recorded an earlier error and still runs: it
// ends by itself, else by SIGTERM, else by SIGKILL; one that outlives even that (an uninterruptible state of
// the kernel) is waited for no more. A value; the time is an argument.
#pragma once

#include <optional>

#include "base/clock.h"

namespace mtrun::launcher {

class RecordLadder {
 public:
  enum class Rung { kWait, kTerminate, kKill, kReport };

  /// Each rung is stood on for `patience`.
  explicit RecordLadder(Duration patience) : patience_(patience) {}

  /// What is due, from the first call on: kTerminate and kKill once, kReport from its time on.
  Rung At(TimePoint now);
  /// When the next rung is due; nothing before the first call and behind the last rung.
  const std::optional<TimePoint>& deadline() const { return deadline_; }

 private:
  Duration patience_;
  Rung last_ = Rung::kWait;
  std::optional<TimePoint> deadline_;
};

}  // namespace mtrun::launcher
