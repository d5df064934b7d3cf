// Random inputs of a micro-batch, for the task that computes it.
#pragma once

#include <cstdint>

#include "trainers/step/task.h"

namespace mtrun::trainers {

/// Draws the inputs of `samples` samples, on `device`.
RandomInputs DrawInputs(const Task& task, const MicroBatchId& micro_batch, int64_t samples,
                        at::Device device);

}  // namespace mtrun::trainers
