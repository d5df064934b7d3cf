// When a client that has no service tries again, says so, and gives up: pure, with time as an argument. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace mtrun::rendezvous {

class RetrySchedule {
 public:
  static constexpr Duration kFirstPause = std::chrono::milliseconds(50);
  static constexpr Duration kLongestPause = std::chrono::milliseconds(500);

  /// `give_up_after` zero: never.
  RetrySchedule(Duration report_every, Duration give_up_after)
      : report_every_(report_every), give_up_after_(give_up_after) {}

  /// The service is away from now on (or not there yet); the next attempt may come at once.
  void BeginAway(TimePoint now) {
    away_since_ = next_attempt_ = now;
    next_report_ = now + report_every_;
  }
  /// An attempt failed: pauses double up to the longest.
  void AttemptFailed(TimePoint now) {
    next_attempt_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  void Connected() { pause_ = kFirstPause; }

  bool AttemptDue(TimePoint now) const { return now >= next_attempt_; }
  bool GiveUpDue(TimePoint now) const {
    return give_up_after_ > Duration::zero() && now >= away_since_ + give_up_after_;
  }
  /// True once per interval.
  bool TakeReport(TimePoint now) {
    if (now < next_report_) return false;
    next_report_ = now + report_every_;
    return true;
  }
  Duration AwayFor(TimePoint now) const { return now - away_since_; }
  /// When any of the above may change; attempts count only while none is under way.
  TimePoint NextDeadline(bool attempting) const {
    TimePoint next = next_report_;
    if (!attempting) next = std::min(next, next_attempt_);
    if (give_up_after_ > Duration::zero()) next = std::min(next, away_since_ + give_up_after_);
    return next;
  }

 private:
  const Duration report_every_, give_up_after_;
  TimePoint away_since_, next_attempt_, next_report_;
  Duration pause_ = kFirstPause;
};

}  // namespace mtrun::rendezvous
