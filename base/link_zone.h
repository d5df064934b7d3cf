// IPv6 link-local addresses (fe80::/10). Such an address is complete only with its zone, the interface that
// leads to it, for which each machine has a name of its own: "fe80::1%eth0". Addresses are therefore sent
// without zones, and the receiver adds its own. Pure, except for the zone of this process.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/endpoint.h"

namespace mtrun {

/// Returns whether `host` is an IPv6 link-local address, with or without a zone.
bool IsLinkLocalSix(std::string_view host);
/// Returns "eth0" for "fe80::1%eth0"; "" if there is no zone.
std::string ZoneOf(std::string_view host);
/// Returns a link-local address without its zone, any other host as it is.
std::string WithoutZone(std::string_view host);
/// Returns a link-local address that has no zone with `zone`, any other host as it is. `zone`: "" for none.
std::string WithZone(std::string_view host, std::string_view zone);
/// Returns kInvalidArgument for a link-local address without a zone, as a user may give it.
absl::Status CheckZone(const Endpoint& endpoint);

/// The zone of addresses that other machines have sent; "": none. Set it before the process has threads.
const std::string& LinkZone();
void SetLinkZone(std::string zone);

}  // namespace mtrun
