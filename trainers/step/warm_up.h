// The first passes of a process take longer than all that follow: libraries load their kernels, choose among
// them, and allocate. A worker that has passed once before it says that it is ready costs the others, who
// wait for its first step, none of that.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "trainers/device/amp.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/step/task.h"

namespace mtrun::trainers {

/// A forward and a backward pass of the first micro-batch, without other workers, and waits for the device.
/// Weights, running statistics and everything that a run's result depends on stay as they are; parameters
/// have no gradient afterwards. What LibTorch throws becomes a status.
absl::Status WarmUp(Task& task, MicroBatchSource& source, uint64_t seed, Precision precision);

}  // namespace mtrun::trainers
