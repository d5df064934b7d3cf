// The stages of stopping workers: a polite signal, SIGKILL after a grace period, giving up a little later.
// Also holds what this node does afterwards. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "launcher/core/agent_events.h"
#include "launcher/core/effect_list.h"

namespace mtrun::launcher {

class StopLadder {
 public:
  /// How long a worker may survive SIGKILL (in an uninterruptible kernel state) before it is given up.
  static constexpr Duration kKillPatience = std::chrono::seconds(5);

  enum class Next { kAwaitService, kRejoin, kExit };
  enum class Rung { kWait, kKill, kGiveUp };

  void Begin(TimePoint deadline) {
    deadline_ = deadline;
    killed_ = false;
  }
  void SetDeadline(TimePoint deadline) { deadline_ = deadline; }
  void Kill(TimePoint now, EffectList* out);
  /// Records that the workers are gone.
  void Finish() { deadline_.reset(); }
  /// Returns the stage that is due.
  Rung At(TimePoint now) const;
  const std::optional<TimePoint>& deadline() const { return deadline_; }

  Next next = Next::kAwaitService;
  std::optional<Exit> exit;  // performed when the workers are gone

  std::string Describe() const;
  bool operator==(const StopLadder&) const = default;

 private:
  std::optional<TimePoint> deadline_;
  bool killed_ = false;
};

}  // namespace mtrun::launcher
