// What is random in a micro-batch, for the task that computes it.
#pragma once

#include <cstdint>

#include "trainers/step/task.h"

namespace mtrun::trainers {

/// Of `samples` samples, on `device`.
RandomInputs DrawInputs(const Task& task, const MicroBatchId& micro_batch, int64_t samples,
                        at::Device device);

}  // namespace mtrun::trainers
