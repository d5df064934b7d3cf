// The end of a worker's part in a run: the run's results, or the last save of a worker that leaves. Training
// thread only.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainers/run/loop/run_member.h"
#include "trainers/step/evaluate.h"

namespace mtrun::trainers {

/// How a worker's part in a run ended.
struct Outcome {
  bool complete = true;  // false: the run stops early, or continues without this worker
  std::string stopped;   // reason and place, as text
  int signal = 0;        // stopped the run; 0: complete, or it continues without this worker
};

/// Ends this worker's part in the run, in one of three ways. An outcome is returned only after
/// 1. the results are on the disk and the job is over, if the run is complete;
/// 2. the state of this worker is on the disk, if no other worker is known to hold it. If that is impossible,
///    the outcome or a message says so.
class RunEnd {
 public:
  /// Evaluates the current weights on the images of the final test.
  using Test = std::function<absl::StatusOr<Evaluation>()>;

  explicit RunEnd(RunMember& run) : run_(run) {}

  /// Completes the run: tests the best weights (`test` null: the last evaluation was the test), and rank
  /// `writer` writes the results. Collective. If another generation begins before the job is over, returns
  /// kUnavailable; its members call this again, which writes nothing that is already on the disk.
  absl::StatusOr<Outcome> Finish(int writer, const Test& test);
  /// Leaves after the votes of a step: with `cause` kVotedToLeave others continue, with kAllLeave all stop.
  /// The latter is collective.
  absl::StatusOr<Outcome> Leave(Decision::Cause cause);
  /// Leaves for the reason `why` while this worker waits for others. First saves its state, which may be the
  /// newest. Returns kAborted if a generation with this worker has formed, which waits for it.
  absl::StatusOr<Outcome> LeaveWhileWaiting(const std::string& why);

 private:
  absl::Status WriteResults(int writer, const Test& test);
  absl::Status TestBest(int writer, const Test& test, RunReport& report);
  absl::Status SaveBeforeLeaving();
  absl::Status SaveUnlessSaved();
  Outcome StopRun(const std::string& why, const absl::Status& saved = absl::OkStatus());

  RunMember& run_;
};

/// Returns whether a worker that was told to leave at `told` (unset: it was not) still waits for its disk at
/// `now`. It stops waiting when a quarter of `grace`, the time from `told` to SIGKILL, is left.
bool WaitsForDisk(std::optional<TimePoint> told, Duration grace, TimePoint now);

}  // namespace mtrun::trainers
