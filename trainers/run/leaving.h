// What a worker that is told to go does not wait for: a step that hangs on another worker, and a disk that
// takes no bytes once the job continues without this worker.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/membership/drain_watch.h"
#include "trainers/membership/membership.h"

namespace mtrun::trainers {

/// Leaves a step of one generation that does not end: the writer may wait for its disk, and the others for it
/// in the middle of a step. The others do that step again. Training thread only.
class StuckStep {
 public:
  /// `membership` must outlive this. `grace`: from a polite signal to SIGKILL; if it is zero (unknown), if
  /// the worker is alone, or if no generation can follow, no step is left.
  StuckStep(const Membership& membership, Duration grace);

  /// Returns what `step` returns. Aborts the group if the step has not ended in half of the grace.
  absl::Status Run(const std::function<absl::Status()>& step);

 private:
  std::atomic<bool> runs_ = false;  // read by the thread of watch_
  std::optional<DrainWatch> watch_;
};

/// Whether a worker that was told to go at `told` (nothing: it was not) still waits for its disk at `now`:
/// until a quarter of the grace is left.
bool WaitsForDisk(std::optional<TimePoint> told, Duration grace, TimePoint now);

/// Whether the disk took no bytes, or the run's files did not wait for it any more.
bool IsRefusedByDisk(const absl::Status& saved);

/// Saves, by `save`, what a worker holds that is told to go. While the disk takes no bytes it tries again,
/// until the job is known to continue on other nodes (OK: nothing has to be saved) or too little of the grace
/// is left. `still_here` is called with each try. kAborted: a generation with this worker has formed.
absl::Status SaveBeforeLeaving(const Membership& membership, Duration grace, std::function<void()> still_here,
                               const std::function<absl::Status()>& save);

}  // namespace mtrun::trainers
