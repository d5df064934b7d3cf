// The mtrun on a host, started by ssh. It greets, waits for its order, and forks. One process becomes the
// mtrun that the order describes. The other keeps the connection, forwards signals, reports the exit status,
// and stops the first if the connection is lost.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/ssh/wire.h"

namespace mtrun::launcher {

/// Returns whether these are the arguments of an mtrun that ssh has started.
bool IsHostEnd(const std::vector<std::string>& args);

/// Returns in the process that must carry out the order. Its folder and environment are then set, with the
/// token in MTRUN_TOKEN; an error describes what failed. Exits if no order arrives. Call before the first
/// thread starts.
absl::StatusOr<Order> BecomeHostEnd();

}  // namespace mtrun::launcher
