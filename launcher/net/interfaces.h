// The network interfaces of this machine, and the source address for a destination.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "launcher/net/local_address.h"

namespace mtrun::launcher {

/// Returns them in the kernel's order, with the addresses of each interface together.
std::vector<InterfaceAddress> ListInterfaces();

/// Calls ChooseAddress for this machine: resolves names, and prefers IPv6 if the endpoint is an IPv6 address.
absl::StatusOr<std::string> ChooseOwnAddress(const std::string& text, const Endpoint& endpoint);

/// Resolves --local_addr auto: the source address of packets to the endpoint. For an endpoint on this
/// machine, that of the default route, or else the first for peers. kUnavailable like AddressTowards.
absl::StatusOr<std::string> AutoAddress(const Endpoint& endpoint);

}  // namespace mtrun::launcher
