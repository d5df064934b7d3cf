// Selection of the address at which this machine is reached: --local_addr. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

/// One address of one of this machine's network interfaces.
struct InterfaceAddress {
  std::string interface;     // "eth0"
  std::string address = {};  // "" if it has none
  bool up = true;
  bool loopback = false;
  /// Returns whether other machines may reach it: up, and neither loopback nor link-local (in IPv6 that needs
  /// an interface number, which is local to a machine).
  bool IsForPeers() const;
  bool operator==(const InterfaceAddress&) const = default;
};

inline constexpr char kAutoAddress[] = "auto";

/// Resolves `text`: an address or a name (itself), an interface (its first address for peers, IPv4 before
/// IPv6 unless `six`), a CIDR ("10.0.0.0/8": its first address for peers, otherwise one of loopback), or
/// "auto" (unchanged). kInvalidArgument describes the error and lists the interfaces. `is_known`: whether a
/// name resolves; a name with a dot may resolve later.
absl::StatusOr<std::string> ChooseAddress(std::string_view text,
                                          const std::vector<InterfaceAddress>& interfaces, bool six,
                                          bool is_known);
/// Returns whether `text` must be resolved to know what it means.
bool MayBeName(std::string_view text, const std::vector<InterfaceAddress>& interfaces);

/// Returns the first address for peers, IPv4 before IPv6 unless `six`; "" for none.
std::string FirstForPeers(const std::vector<InterfaceAddress>& interfaces, bool six);

/// Returns the first interface with an IPv6 link-local address for peers; "" for none.
std::string FirstZone(const std::vector<InterfaceAddress>& interfaces);

/// Returns the interface with this address; "" for none and for loopback, which says nothing about peers.
std::string InterfaceOf(std::string_view address, const std::vector<InterfaceAddress>& interfaces);

/// Returns "lo (127.0.0.1, ::1), eth0 (10.0.0.2), eth1 (down)".
std::string DescribeInterfaces(const std::vector<InterfaceAddress>& interfaces);

}  // namespace mtrun::launcher
