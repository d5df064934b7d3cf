// The addresses of an endpoint in the form of connect(2). Any thread.
#pragma once

#include <netdb.h>

#include <functional>
#include <memory>

#include "base/endpoint.h"

namespace mtrun::rendezvous {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Returns null if there is none. A name blocks for as long as the system's resolver does, unless `flags` has
/// AI_NUMERICHOST.
AddressList Resolve(const Endpoint& endpoint, int flags = 0);

/// True if this machine has an IPv6 address other than the ones that each interface assigns itself, which
/// exist even in IPv4 networks. True if that cannot be determined.
bool HasIpv6();

/// True if socket(2) or connect(2) failed at once with `error` for `address` and this machine can never reach
/// it: it has no sockets of that family, or no IPv6 at all. That proves nothing about the host, and must not
/// keep other addresses from proving it. A route that is missing otherwise may be back soon (a DHCP lease is
/// over), so then the host's answer is unknown.
bool CannotBeAsked(const addrinfo& address, int error, const std::function<bool()>& has_ipv6 = HasIpv6);

}  // namespace mtrun::rendezvous
