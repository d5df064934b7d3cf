// Parts of a run that are made anew in each generation: its gradients' buckets and hooks, and the step that
// uses them. Training thread only.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/membership/wait_watch.h"
#include "trainers/parallel/data_parallel.h"
#include "trainers/run/loop/run_member.h"
#include "trainers/step/train_step.h"

namespace mtrun::trainers {

/// Aborts a step of one generation that does not end after this worker was told to leave: the writer may be
/// waiting for its disk, and the others for the writer in the middle of a step. The others repeat that step.
class StuckStep {
 public:
  /// `membership` must outlive this. `grace`: from a polite signal to SIGKILL. No step is aborted if `grace`
  /// is zero (unknown), if the worker is alone, or if no generation can follow.
  StuckStep(const Membership& membership, Duration grace);

  /// Returns what `step` returns. Aborts the group if the step has not ended after half of the grace period.
  absl::Status Run(const std::function<absl::Status()>& step);

 private:
  std::atomic<bool> runs_ = false;  // read by the thread of watch_
  std::optional<WaitWatch> watch_;
};

struct GenerationState {
  /// All references must outlive this. `writes`: the rank that writes the run's files.
  GenerationState(RunMember& run, MicroBatchSource& source, RefusedSums& refused, int writes);

  const int writer;
  DataParallel data_parallel;
  TrainStep runner;
  StuckStep stuck_step;
  TimePoint began{};  // when its steps began
};

}  // namespace mtrun::trainers
