// Decides, for a client that has no service, when to try again, how long to wait for an answer, and when to
// report and to give up. Pure: time is an argument. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace mtrun::rendezvous {

class RetrySchedule {
 public:
  static constexpr Duration kFirstPause = std::chrono::milliseconds(50);
  static constexpr Duration kMaxPause = std::chrono::milliseconds(500);
  static constexpr Duration kFirstPatience = std::chrono::seconds(1);
  static constexpr size_t kMaxDoublings = 2;
  /// A few times the cost of a handshake for a service: added to the wait for each other node that may need
  /// one at the same time.
  static constexpr Duration kPerNode = std::chrono::milliseconds(2);
  /// The first attempts of nodes that are started at the same moment are spread over this time for each node.
  static constexpr Duration kSpreadPerNode = std::chrono::microseconds(100);

  /// `give_up_after` zero: never. `nodes`: the maximum in the job.
  RetrySchedule(Duration report_every, Duration give_up_after, int nodes = 1)
      : report_every_(report_every), give_up_after_(give_up_after), others_(nodes - 1) {}

  /// Starts before there has been any service. `random`: any 64 bits.
  void Begin(TimePoint now, uint64_t random) {
    BeginAway(now);
    const auto spread = static_cast<uint64_t>((others_ * kSpreadPerNode).count());
    next_attempt_ += Duration(static_cast<int64_t>(random % (spread + 1)));
  }
  /// Notes that the service is away from now on; the next attempt may come at once.
  void BeginAway(TimePoint now) {
    away_since_ = next_attempt_ = now;
    next_report_ = now + report_every_;
  }
  /// Notes a failed attempt: pauses double up to the longest.
  void AttemptFailed(TimePoint now) {
    next_attempt_ = now + pause_;
    pause_ = std::min(2 * pause_, kMaxPause);
  }
  /// Notes that the attempt got neither an acceptance nor a refusal.
  void AttemptSilent() { ++silent_; }
  /// Starts over at once, because there are other services to try.
  void StartOver(TimePoint now) { pause_ = kFirstPause, silent_ = 0, next_attempt_ = now; }
  void Connected() { pause_ = kFirstPause, silent_ = 0; }
  /// Returns how long a stream may be silent. `lease`: the silence after which a node is lost. If there are
  /// several services, a silent one is lost after the same time. An attempt soon ends in favour of the next
  /// service, and gets twice as long after each round without an answer: a slow service must be found too.
  Duration Timeout(bool connected, size_t services, Duration lease) const {
    const Duration crowd = connected ? Duration::zero() : others_ * kPerNode;
    if (services == 1) return std::max<Duration>(std::chrono::seconds(3), 4 * lease) + crowd;
    if (connected) return std::max(kFirstPatience, lease);
    return kFirstPatience * (1 << std::min(silent_ / services, kMaxDoublings)) + crowd;
  }

  bool AttemptDue(TimePoint now) const { return now >= next_attempt_; }
  bool GiveUpDue(TimePoint now) const {
    return give_up_after_ > Duration::zero() && now >= away_since_ + give_up_after_;
  }
  /// Returns true once per interval.
  bool TakeReport(TimePoint now) {
    if (now < next_report_) return false;
    next_report_ = now + report_every_;
    return true;
  }
  Duration AwayFor(TimePoint now) const { return now - away_since_; }
  /// Returns when any of the above may change; attempts count only while none is in progress.
  TimePoint NextDeadline(bool attempting) const {
    TimePoint next = next_report_;
    if (!attempting) next = std::min(next, next_attempt_);
    if (give_up_after_ > Duration::zero()) next = std::min(next, away_since_ + give_up_after_);
    return next;
  }

 private:
  const Duration report_every_, give_up_after_;
  const int others_;  // number of other nodes
  TimePoint away_since_, next_attempt_, next_report_;
  Duration pause_ = kFirstPause;
  size_t silent_ = 0;  // attempts without an answer since the last connection
};

}  // namespace mtrun::rendezvous
