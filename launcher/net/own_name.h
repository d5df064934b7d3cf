// The host name of this machine, as an endpoint and as an address to listen at. Pure, except for the resolver
// that is passed.
#pragma once

#include <string>
#include <vector>

#include "base/endpoint.h"
#include "launcher/net/local_address.h"

namespace mtrun::launcher {

/// Returns `endpoint`, or localhost with its port if its host is `own`, this machine's name, and does not
/// resolve here: images of clouds often lack it in their hosts file, while other machines resolve it.
std::string EndpointFromHere(const std::string& endpoint, const std::string& own,
                             const Resolver& resolve = ResolveHost);

/// Returns whether a program that listens at the address of its machine's name, as PyTorch's Gloo does, is
/// out of reach for other machines: `addresses` of that name are none of `interfaces`, or loopback comes
/// first (in Debian's hosts file the own name is 127.0.1.1).
bool HidesBehindName(const std::vector<std::string>& addresses,
                     const std::vector<InterfaceAddress>& interfaces);

}  // namespace mtrun::launcher
