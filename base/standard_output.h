// Prints a program's answer on standard output and checks that all of it was written.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace mtrun {

/// Writes `text` after the buffered output of std::cout and stdout and flushes everything. Returns an error
/// such as "write to standard output: No space left on device", so that a truncated file is not taken for the
/// answer. Use it for query commands only: a blocked console must not end a job.
absl::Status PrintOut(std::string_view text);

}  // namespace mtrun
