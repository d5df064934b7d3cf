// Memory use of this process.
#pragma once

#include <cstdint>

namespace mtrun {

/// Returns the bytes in memory now (/proc/self/statm); 0 if they cannot be read.
int64_t ResidentBytes();

}  // namespace mtrun
