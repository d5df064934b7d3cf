// What a run shows of its steps beside their results: how fast each worker is, now and then the size of
// gradients, loss scale and what the writer's GPU does. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/membership/assignment.h"
#include "trainers/run/gpu_gauge.h"
#include "trainers/run/run_files.h"
#include "trainers/run/worker_times.h"
#include "trainers/step/step_result.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

class StepWatch {
 public:
  /// The references must outlive this. `clips`: gradients are clipped, so their norm is known. `gpu`: the
  /// address of this worker's, "" without one.
  StepWatch(RunFiles& files, const TrainState& state, bool clips, const std::string& gpu)
      : files_(files), state_(state), clips_(clips), gpu_(gpu) {}

  /// A generation begins in which a step has `micro_batches`.
  void Enter(const Assignment& who, int64_t micro_batches, TimePoint now);
  /// Fills in what is due for the curves of `step`, where this member writes them.
  void Look(FinishedStep& step, TimePoint now);
  /// Counts where the time of all workers went, records it when that is due, and rank 0 names one that is
  /// slow.
  absl::Status Count(const StepResult& result, int64_t steps, TimePoint now);

 private:
  void Tell(const WorkersRecord& record);

  RunFiles& files_;
  const TrainState& state_;
  const bool clips_;
  GpuGauge gpu_;
  Assignment who_;
  WorkerTimes times_;
  std::optional<int> told_;  // the worker that was named last
  TimePoint looked_{};
};

}  // namespace mtrun::trainers
