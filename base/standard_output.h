// What a program answers on its standard output: whether all of it has gone out.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace mtrun {

/// Writes `text` behind what std::cout and stdout hold back, and all of that out: a disk may be full, and a
/// file that ends early must not pass for the answer. "write to standard output: No space left on device".
/// Of questions only: a console that takes nothing ends no job.
absl::Status PrintOut(std::string_view text);

}  // namespace mtrun
