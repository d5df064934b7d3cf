// Measurements of a run's steps besides their results: the speed of each worker and, now and then, the norm
// of the gradients, the loss scale and the load of the writer's GPU. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/membership/assignment.h"
#include "trainers/run/files/run_files.h"
#include "trainers/run/records/gpu_gauge.h"
#include "trainers/run/records/worker_times.h"
#include "trainers/step/step_result.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

class StepWatch {
 public:
  /// The references must outlive this. `clips`: gradients are clipped, so their norm is known. `gpu`: the PCI
  /// address of this worker's GPU, "" without one.
  StepWatch(RunFiles& files, const TrainState& state, bool clips, const std::string& gpu)
      : files_(files), state_(state), clips_(clips), gpu_(gpu) {}

  /// Begins a generation in which a step has `micro_batches`.
  void Enter(const Assignment& who, int64_t micro_batches, TimePoint now);
  /// Fills in what is due for the curves of `step`, if this member writes them.
  void Look(FinishedStep& step, TimePoint now);
  /// Adds up how all workers spend their time, and records it when that is due. Rank 0 logs a slow worker.
  absl::Status Count(const StepResult& result, int64_t steps, TimePoint now);

 private:
  void Tell(const WorkersRecord& record);

  RunFiles& files_;
  const TrainState& state_;
  const bool clips_;
  GpuGauge gpu_;
  Assignment who_;
  WorkerTimes times_;
  std::optional<int> told_;  // the worker that was logged last
  TimePoint looked_{};
};

}  // namespace mtrun::trainers
