// Listening TCP sockets.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/posix.h"

namespace mtrun::rendezvous {

/// Returns a listening socket for each address of `addresses`, all on one port (any free one for port 0).
/// "::" is every address of the machine, even if it has no IPv6. Not blocking, not inherited by programs.
/// Returns kAlreadyExists if the port is in use or an address is not this machine's.
absl::StatusOr<std::vector<UniqueFd>> ListenAt(const std::vector<Endpoint>& addresses);

}  // namespace mtrun::rendezvous
