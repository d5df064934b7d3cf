// When a client that has no service tries again, how long it waits for an answer, when it says so and gives
// up: pure, with time as an argument. Not thread-safe.
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
  static constexpr Duration kLongestPause = std::chrono::milliseconds(500);
  static constexpr Duration kFirstPatience = std::chrono::seconds(1);
  static constexpr size_t kMostDoublings = 2;
  /// What a handshake costs a service, and a few times that: so much more is waited for each other node
  /// that may want one at the same time.
  static constexpr Duration kPerNode = std::chrono::milliseconds(2);
  /// The first attempts of all nodes, which a cluster starts in one moment, are spread over so much a node.
  static constexpr Duration kSpreadPerNode = std::chrono::microseconds(100);

  /// `give_up_after` zero: never. So many `nodes` may take part in the job.
  RetrySchedule(Duration report_every, Duration give_up_after, int nodes = 1)
      : report_every_(report_every), give_up_after_(give_up_after), others_(nodes - 1) {}

  /// There has been no service yet. `random`: any 64 bits.
  void Begin(TimePoint now, uint64_t random) {
    BeginAway(now);
    const auto spread = static_cast<uint64_t>((others_ * kSpreadPerNode).count());
    next_attempt_ += Duration(static_cast<int64_t>(random % (spread + 1)));
  }
  /// The service is away from now on; the next attempt may come at once.
  void BeginAway(TimePoint now) {
    away_since_ = next_attempt_ = now;
    next_report_ = now + report_every_;
  }
  /// An attempt failed: pauses double up to the longest.
  void AttemptFailed(TimePoint now) {
    next_attempt_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  /// It was one that nobody answered, neither with yes nor with no.
  void AttemptSilent() { ++silent_; }
  /// There are others to try, at once.
  void StartOver(TimePoint now) { pause_ = kFirstPause, silent_ = 0, next_attempt_ = now; }
  void Connected() { pause_ = kFirstPause, silent_ = 0; }
  /// How long a service may say nothing on a stream; `lease`: after which it takes a node for lost. Where
  /// there are several, one that falls silent is lost as soon as a node is. An attempt soon ends in favour of
  /// the next one, and is given twice as long after each round of silence: a service that is slow must be
  /// found too.
  Duration Patience(bool connected, size_t services, Duration lease) const {
    const Duration crowd = connected ? Duration::zero() : others_ * kPerNode;
    if (services == 1) return std::max<Duration>(std::chrono::seconds(3), 4 * lease) + crowd;
    if (connected) return std::max(kFirstPatience, lease);
    return kFirstPatience * (1 << std::min(silent_ / services, kMostDoublings)) + crowd;
  }

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
  const int others_;  // nodes
  TimePoint away_since_, next_attempt_, next_report_;
  Duration pause_ = kFirstPause;
  size_t silent_ = 0;  // attempts without an answer since the last connection
};

}  // namespace mtrun::rendezvous
