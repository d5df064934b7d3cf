// The addresses of an endpoint as connect(2) takes them. Any thread.
#pragma once

#include <netdb.h>

#include <functional>
#include <memory>

#include "base/endpoint.h"

namespace mtrun::rendezvous {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Null when there is none. A name blocks for as long as the system's resolver does, unless `flags` has
/// AI_NUMERICHOST.
AddressList Resolve(const Endpoint& endpoint, int flags = 0);

/// Whether this machine has an IPv6 address, beside those that each interface gives itself: these are there
/// also where the network has IPv4 alone. True where nobody can say.
bool HasIpv6();

/// socket(2) or connect(2) has given `error` for `address` at once, and this machine will never be able to
/// ask it: it has no sockets of that family, or no IPv6 at all. Such an address neither proves anything nor
/// keeps the others from doing so. A route that is missing otherwise may be back a moment later (a lease of
/// DHCP is over), and nobody knows what the host would have said.
bool CannotBeAsked(const addrinfo& address, int error, const std::function<bool()>& has_ipv6 = HasIpv6);

}  // namespace mtrun::rendezvous
