// The error for a flag that is like no setting. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace mtrun {

/// kInvalidArgument with this message.
absl::Status StrangeFlag(std::string_view message);
/// Returns whether the error is one of StrangeFlag, also after Annotate.
bool IsStrangeFlag(const absl::Status& status);

}  // namespace mtrun
