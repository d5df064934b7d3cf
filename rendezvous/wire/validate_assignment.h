// What an assignment must satisfy whoever sent it.
#pragma once

#include "absl/status/status.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// Returns kInvalidArgument unless members are distinct and in order, their ranks are contiguous from 0 to
/// world_size-1, and earlier generations have distinct members too.
absl::Status ValidateAssignment(const Assignment& assignment);

}  // namespace mtrun::rendezvous
