// The mtrun on a host, which ssh has started: it greets, waits for its order, and becomes two processes. One
// is the mtrun that the order describes; the other one stays with the connection, passes signals on, says how
// the first one ended, and stops it when the connection is gone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/ssh/wire.h"

namespace mtrun::launcher {

/// Whether these are the arguments of an mtrun that ssh has started.
bool IsHostEnd(const std::vector<std::string>& args);

/// Returns in the process that is to follow the order, whose folder and environment are then this process's,
/// with the token in MTRUN_TOKEN; an error is why it cannot. Ends the process where no order comes. Call
/// before the first thread.
absl::StatusOr<Order> BecomeHostEnd();

}  // namespace mtrun::launcher
