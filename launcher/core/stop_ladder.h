// How workers are stopped: the polite signal, SIGKILL after a grace, giving up after a little more. And what
// this node does when they are gone. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "launcher/core/agent_events.h"
#include "launcher/core/effect_list.h"

namespace mtrun::launcher {

class StopLadder {
 public:
  /// How long after SIGKILL a worker may still be there (an uninterruptible state of the kernel) before it is
  /// given up.
  static constexpr Duration kKillPatience = std::chrono::seconds(5);

  enum class Next { kAwaitService, kRejoin, kExit };
  enum class Rung { kWait, kKill, kGiveUp };

  /// Starts at the polite signal.
  void Begin(TimePoint deadline) {
    deadline_ = deadline;
    killed_ = false;
  }
  void SetDeadline(TimePoint deadline) { deadline_ = deadline; }
  /// Sends SIGKILL.
  void Kill(TimePoint now, EffectList* out);
  /// The workers are gone.
  void Finish() { deadline_.reset(); }
  /// What is due.
  Rung At(TimePoint now) const;
  const std::optional<TimePoint>& deadline() const { return deadline_; }

  Next next = Next::kAwaitService;
  std::optional<Exit> exit;  // decided, performed when the workers are gone

  std::string Describe() const;
  bool operator==(const StopLadder&) const = default;

 private:
  std::optional<TimePoint> deadline_;
  bool killed_ = false;
};

}  // namespace mtrun::launcher
