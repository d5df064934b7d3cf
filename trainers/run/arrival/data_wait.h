// Holds the run before a step or an evaluation until all its images have arrived or the membership ends, and
// counts the seconds. Does nothing if all images were there from the beginning. Training thread only.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "datasets/packed/packed.h"
#include "trainers/membership/membership.h"
#include "trainers/run/arrival/data_arrival.h"
#include "trainers/run/files/run_files.h"

namespace mtrun::trainers {

class DataWait {
 public:
  /// The references must outlive this; `arrival` can be null. `before`: how long this worker waited before
  /// the run. `still_here` is called repeatedly during a wait, so that this worker is not considered hung.
  DataWait(DataArrival* arrival, Duration before, const Membership& membership, RunFiles& files,
           std::function<void()> still_here)
      : arrival_(arrival),
        membership_(membership),
        files_(files),
        still_here_(std::move(still_here)),
        unrecorded_(before) {}

  /// Enters a generation after `steps` finished steps: what this member needs from there is fetched next.
  absl::Status Enter(int64_t steps);
  /// Waits until this member can compute step `step`; returns how long that took. Else returns the
  /// membership's error. If this worker is to leave, that is kUnavailable, or kCancelled without a launcher.
  absl::StatusOr<Duration> AwaitStep(int64_t step);
  /// Waits in the same way for the first `images` images of a split of the run, after `steps` finished steps.
  absl::Status AwaitImages(const datasets::PackedSplit& split, int64_t images, int64_t steps);

 private:
  absl::Status Look() const;
  absl::StatusOr<Duration> Count(int64_t steps);
  absl::Status Record(int64_t steps);

  DataArrival* const arrival_;
  const Membership& membership_;
  RunFiles& files_;
  const std::function<void()> still_here_;
  Duration unrecorded_;
};

}  // namespace mtrun::trainers
