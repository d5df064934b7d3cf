// Counts generations in a row whose collectives break without a step and without a death: workers that cannot
// connect. The pauses between them grow, and after kMaxBreaks no further one forms. A value; not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace mtrun::rendezvous {

class BreakBackoff {
 public:
  static constexpr int kMaxBreaks = 10;
  static constexpr Duration kFirstPause = std::chrono::milliseconds(200);
  static constexpr Duration kMaxPause = std::chrono::seconds(10);
  // A run of this length counts like a step, for programs that report none. It is longer than trainers try to
  // connect (mesh.h): if only some are connected, those may be the first to report the others.
  static constexpr Duration kLongRun = std::chrono::seconds(120);

  /// Returns the pause after so many breaks in a row.
  static Duration PauseAfter(int breaks);

  void OnGeneration(TimePoint now);
  void OnStep();
  /// `connected`: the reporting worker had a group. If not, it has only tried, however long.
  void OnBreak(TimePoint now, bool connected);
  /// Forgets the breaks, because something else explains them: a node or a worker is gone.
  void Clear();

  bool stepped() const { return stepped_; }  // in the generation that began last
  /// Returns whether that generation has made progress: a step, or a long run.
  bool Progressed(TimePoint now) const { return stepped_ || now - began_ >= kLongRun; }
  int breaks() const { return breaks_; }
  bool exhausted() const { return breaks_ >= kMaxBreaks; }
  /// Returns when the pause before the next generation ends; empty if there is none.
  std::optional<TimePoint> PauseEnds(TimePoint now) const;
  /// Returns the text shown to people during the pause.
  std::string PauseText() const;

  /// Returns "" if nothing has broken. Times are relative to `now`.
  std::string Describe(TimePoint now) const;
  bool operator==(const BreakBackoff&) const = default;

 private:
  int breaks_ = 0;
  TimePoint began_;  // when the last generation began
  bool stepped_ = false;
  std::optional<TimePoint> pause_ends_;
};

}  // namespace mtrun::rendezvous
