// Finds workers of this node that make no progress while others wait for them. A value; time is an argument.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/core/worker_slots.h"

namespace mtrun::launcher {

class HangWatch {
 public:
  /// Workers that a phase watches: none, those that warm up, or also the members of the running generation.
  enum class Scope { kNobody, kFresh, kAll };

  /// A worker that has been stalled for `stalled`: to be reported or killed.
  struct Hang {
    int local_rank = 0;
    Duration stalled = Duration::zero();
    std::optional<int64_t> step = {};  // last step that it reported; nullopt for a fresh worker
    bool kill = false;
    bool operator==(const Hang&) const = default;
  };

  /// Reports after `notice`, kills after `timeout`; zero: never.
  HangWatch(Duration notice, Duration timeout, int slots);

  /// Starts tracking a fresh process.
  void Restart(int local_rank, TimePoint now);
  /// Records that the worker finished something, or reported that it waits for others or its data. Returns
  /// how long it had been stalled if that was reported.
  std::optional<Duration> OnProgress(int local_rank, TimePoint now);
  void SetStep(int local_rank, int64_t step);

  /// Next time at which Look() can find something.
  std::optional<TimePoint> NextLook(const WorkerSlots& slots, Scope scope) const;
  /// Returns the hangs to report now; each is reported once, and once more when it is to be killed.
  std::vector<Hang> Look(const WorkerSlots& slots, Scope scope, TimePoint now);
  /// Returns the reported hangs that persist.
  std::vector<Hang> Reported(const WorkerSlots& slots, Scope scope) const;

  /// Returns the timeout if Look() decided to kill the worker.
  std::optional<Duration> KilledAfter(int local_rank) const;

  std::string Describe() const;
  bool operator==(const HangWatch&) const = default;

 private:
  struct Track {
    TimePoint moved = {};
    int64_t steps = 0;
    std::optional<Duration> reported = {};  // how long it was stalled then
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
