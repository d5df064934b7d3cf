// The first steps of a process take longer than all that follow: libraries load their kernels, choose among
// them, and allocate; with --graph a step is captured. A worker that has done so before it says that it is
// ready costs the others, who wait for its first step, none of that.
#pragma once

#include "absl/status/status.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/step/task.h"
#include "trainers/step/train_state.h"
#include "trainers/step/train_step.h"

namespace mtrun::trainers {

/// Step 0 of the run's first micro-batch, without other workers: forward, backward, update; as often as it
/// takes until there was an update (a loss scale may be too high at first), with options.graphs until passes
/// and update have been captured and replayed. Waits for the device. Afterwards weights, statistics, the
/// optimizer's state and everything else that a run's result depends on are as they were, and parameters have
/// no gradient. `options`: of seed, precision and graphs. What LibTorch throws becomes a status.
absl::Status WarmUp(Task& task, MicroBatchSource& source, TrainState& state,
                    const TrainStep::Options& options);

}  // namespace mtrun::trainers
