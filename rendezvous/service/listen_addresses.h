// Which addresses the service listens on: where only this machine is meant, those that only it reaches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"

namespace mtrun::rendezvous {

/// `listen` itself. Where that is on loopback all its addresses, IPv4 first, without those that are not
/// `is_own`; only one where port 0 asks for any free port: what was judged is bound, not a name that may lead
/// elsewhere a moment later. kInvalidArgument where none is left. Pure but for the two functions it is given.
absl::StatusOr<std::vector<Endpoint>> ListenAddresses(const Endpoint& listen, const Resolver& resolve,
                                                      const std::function<bool(const std::string&)>& is_own);

/// Whether a socket can be bound to this numeric address: a machine may name ::1 in its hosts file and have
/// no IPv6.
bool IsOwn(const std::string& address);

}  // namespace mtrun::rendezvous
