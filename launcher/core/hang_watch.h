// Which of this node's workers make no progress while others wait for them. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/core/worker_slots.h"

namespace mtrun::launcher {

class HangWatch {
 public:
  /// Whom a phase watches: nobody, those who prepare themselves, or the members of the running generation
  /// too.
  enum class Scope { kNobody, kFresh, kAll };

  /// A worker that has been stalled for so long: reported, or to be killed.
  struct Hang {
    int local_rank = 0;
    Duration stalled = Duration::zero();
    std::optional<int64_t> step = {};  // finished, as far as it has told; a fresh worker has none
    bool kill = false;
    bool operator==(const Hang&) const = default;
  };

  /// Reported after `notice`, killed after `timeout`; zero: never.
  HangWatch(Duration notice, Duration timeout, int slots);

  /// A fresh process.
  void Restart(int local_rank, TimePoint now);
  /// It finished something, or said that it waits for others or its data. How long it had been stalled when
  /// that was reported.
  std::optional<Duration> OnProgress(int local_rank, TimePoint now);
  void SetStep(int local_rank, int64_t step);

  /// When Look() may find something.
  std::optional<TimePoint> NextLook(const WorkerSlots& slots, Scope scope) const;
  /// Hangs to report now; each is reported once, and once more when it is to be killed.
  std::vector<Hang> Look(const WorkerSlots& slots, Scope scope, TimePoint now);
  /// Hangs that were reported and last.
  std::vector<Hang> Reported(const WorkerSlots& slots, Scope scope) const;

  /// The timeout, when Look() had it killed.
  std::optional<Duration> KilledAfter(int local_rank) const;

  std::string Describe() const;
  bool operator==(const HangWatch&) const = default;

 private:
  struct Track {
    TimePoint moved = {};
    int64_t steps = 0;
    std::optional<Duration> reported = {};  // stalled for so long then
    bool killed = false;
    bool operator==(const Track&) const = default;
  };

  bool Watches(const WorkerSlots& slots, Scope scope, int local_rank) const;
  Hang HangOf(const WorkerSlots& slots, int local_rank, Duration stalled) const;

  Duration notice_, timeout_;
  std::vector<Track> tracks_;  // by local rank
};

/// "rank 1 (local 1) on node1: no progress for 30.0 s since step 12".
std::string Describe(const HangWatch::Hang& hang, const std::string& name);

}  // namespace mtrun::launcher
