// The network interfaces of this machine, and which address leads where.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "launcher/net/local_address.h"

namespace mtrun::launcher {

/// "10.0.0.2"; an IPv4 address that is mapped into IPv6 as such, a link-local one without its interface.
std::string NumericText(const sockaddr* address);

/// In the kernel's order, the addresses of each one together.
std::vector<InterfaceAddress> ListInterfaces();

/// ChooseAddress for this machine: it looks names up, and prefers IPv6 where the endpoint is an address of
/// that kind.
absl::StatusOr<std::string> ChooseOwnAddress(const std::string& text, const Endpoint& endpoint);

/// --local_addr auto: the address from which packets to the endpoint leave; where that is on this machine,
/// the one of the default route, else the first for peers. kUnavailable as AddressTowards.
absl::StatusOr<std::string> AutoAddress(const Endpoint& endpoint);

}  // namespace mtrun::launcher
