// TCP sockets that listen.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/posix.h"

namespace mtrun::rendezvous {

/// A socket that listens for each address that `addresses` lead to, on one port (of port 0 any free one);
/// "::" is every address of the machine, also where it has no IPv6. Not blocking, not inherited by programs.
/// kAlreadyExists where the port is in use or an address not this machine's.
absl::StatusOr<std::vector<UniqueFd>> ListenAt(const std::vector<Endpoint>& addresses);

int PortOf(const UniqueFd& socket);

}  // namespace mtrun::rendezvous
