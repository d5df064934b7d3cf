// The first steps of a process take longer than all later ones: libraries load kernels, choose among them,
// and allocate; with --graph a step is captured. If a worker does this before it reports that it is ready,
// the others need not wait for it in their first step.
#pragma once

#include "absl/status/status.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/step/task.h"
#include "trainers/step/train_state.h"
#include "trainers/step/train_step.h"

namespace mtrun::trainers {

/// Computes step 0 of the run's first micro-batch without other workers: forward, backward, update. Repeats
/// it until there was an update, because a loss scale can be too high at first. With options.graphs, repeats
/// it until passes and update have been captured and replayed. Waits for the device. Afterwards weights,
/// statistics, the optimizer's state and everything else that a run's result depends on are as before, and
/// parameters have no gradient. `options`: seed, precision and graphs. LibTorch's exceptions become a status.
absl::Status WarmUp(Task& task, MicroBatchSource& source, TrainState& state,
                    const TrainStep::Options& options);

}  // namespace mtrun::trainers
