// Patience with data that a server still sends: holds the run before a step or an evaluation whose images are
// not all there, until they are or the membership ends, and counts the seconds. Does nothing where all images
// were there from the beginning. Training thread only.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "datasets/packed.h"
#include "trainers/membership/membership.h"
#include "trainers/run/data_arrival.h"
#include "trainers/run/run_files.h"

namespace mtrun::trainers {

class DataWait {
 public:
  /// The references must outlive this; `arrival` may be null. `before`: what this worker has waited before
  /// the run. `still_here` is called again and again: who waits is not hung.
  DataWait(DataArrival* arrival, Duration before, const Membership& membership, RunFiles& files,
           std::function<void()> still_here)
      : arrival_(arrival),
        membership_(membership),
        files_(files),
        still_here_(std::move(still_here)),
        unrecorded_(before) {}

  /// A generation begins behind `steps` finished steps: what this member needs from there on is fetched next.
  absl::Status Enter(int64_t steps);
  /// Until this member can make step `step`; how long that took. Else the membership's error, or where this
  /// worker is to go kUnavailable, and kCancelled where no launcher is there to say what follows.
  absl::StatusOr<Duration> AwaitStep(int64_t step);
  /// Likewise until the first `images` of a split of the run are there, `steps` being finished.
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
