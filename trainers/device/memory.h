// Measures how much memory this process holds, for reports.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// Returns the bytes that LibTorch has reserved on a GPU; for a CPU, the process's in main memory. 0:
/// unknown.
int64_t MemoryInUse(c10::Device device);

}  // namespace mtrun::trainers
