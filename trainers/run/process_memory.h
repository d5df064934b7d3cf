// What this process takes of the machine's memory.
#pragma once

#include <cstdint>

namespace mtrun::trainers {

/// Bytes in memory now (/proc/self/statm); 0 where that cannot be read.
int64_t ResidentBytes();

}  // namespace mtrun::trainers
