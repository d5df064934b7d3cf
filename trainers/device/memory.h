// How much memory this process holds, for people.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace mtrun::trainers {

/// Bytes that LibTorch has reserved on a GPU; on a CPU those of this process that are in main memory. 0: not
/// known.
int64_t MemoryInUse(c10::Device device);

}  // namespace mtrun::trainers
