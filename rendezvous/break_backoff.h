// Generations in a row whose collectives break without a step and without a death: workers that cannot meet.
// Pauses between them grow, and after kMaxBreaks there is no next one. A value; not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace mtrun::rendezvous {

class BreakBackoff {
 public:
  static constexpr int kMaxBreaks = 10;
  static constexpr Duration kFirstPause = std::chrono::milliseconds(200);
  static constexpr Duration kLongestPause = std::chrono::seconds(10);
  // As good as a step, for who reports none; longer than trainers try to connect (mesh.h): where some of them
  // are connected, those may be the first to say that others are not.
  static constexpr Duration kLongRun = std::chrono::seconds(120);

  void OnGeneration(TimePoint now);
  void OnStep();
  /// `connected`: the worker that says so had a group. Without one it has only tried, however long.
  void OnBreak(TimePoint now, bool connected);
  /// Something else explains the breaks: a node or a worker is gone.
  void Clear();

  bool stepped() const { return stepped_; }  // the generation that began last
  int breaks() const { return breaks_; }
  bool exhausted() const { return breaks_ >= kMaxBreaks; }
  /// Until when the next generation waits; nothing when it need not.
  std::optional<TimePoint> PauseEnds(TimePoint now) const;
  /// What people read during the pause.
  std::string PauseText() const;

  /// "" while nothing has broken. Times relative to `now`.
  std::string Describe(TimePoint now) const;
  bool operator==(const BreakBackoff&) const = default;

 private:
  int breaks_ = 0;
  TimePoint began_;  // the generation that began last
  bool stepped_ = false;
  std::optional<TimePoint> pause_ends_;
};

}  // namespace mtrun::rendezvous
