// The addresses on which the service listens: if only this machine is meant, those that only it reaches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"

namespace mtrun::rendezvous {

/// Returns `listen` itself, or, if that is on loopback, all its addresses that satisfy `is_own`, IPv4 first;
/// only one if port 0 asks for any free port. The checked addresses are bound, because a name may resolve
/// differently a moment later. kInvalidArgument if none is left. Pure except for the functions passed.
absl::StatusOr<std::vector<Endpoint>> ListenAddresses(const Endpoint& listen, const Resolver& resolve,
                                                      const std::function<bool(const std::string&)>& is_own);

/// True if a socket can be bound to this numeric address: a machine may name ::1 in its hosts file and have
/// no IPv6.
bool IsOwn(const std::string& address);

}  // namespace mtrun::rendezvous
