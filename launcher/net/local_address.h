// At which of its addresses this machine is to be reached: --local_addr. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

/// One address of one of this machine's network interfaces.
struct InterfaceAddress {
  std::string interface;     // "eth0"
  std::string address = {};  // "" where it has none
  bool up = true;
  bool loopback = false;
  /// Whether other machines may reach it: neither loopback nor link-local (those of IPv6 need the number of
  /// an interface, which means nothing elsewhere), and up.
  bool IsForPeers() const;
  bool operator==(const InterfaceAddress&) const = default;
};

inline constexpr char kAutoAddress[] = "auto";

/// What `text` means: an address or a name (itself), an interface (its first address for peers, IPv4 before
/// IPv6 unless `six`), a CIDR ("10.0.0.0/8": the first address for peers in it, else one of
/// loopback), or "auto", which stays.
/// kInvalidArgument says what is wrong and which interfaces there are. `is_known`: whether a name resolves; a
/// name with a dot may do so later.
absl::StatusOr<std::string> ChooseAddress(std::string_view text,
                                          const std::vector<InterfaceAddress>& interfaces, bool six,
                                          bool is_known);
/// Whether `text` has to be looked up to know what it means.
bool MayBeName(std::string_view text, const std::vector<InterfaceAddress>& interfaces);

/// The first address for peers, IPv4 before IPv6 unless `six`; "" for none.
std::string FirstForPeers(const std::vector<InterfaceAddress>& interfaces, bool six);

/// The interface with this address; "" for none, and for loopback, which tells nothing of where peers are.
std::string InterfaceOf(std::string_view address, const std::vector<InterfaceAddress>& interfaces);

/// "lo (127.0.0.1, ::1), eth0 (10.0.0.2), eth1 (down)".
std::string DescribeInterfaces(const std::vector<InterfaceAddress>& interfaces);

}  // namespace mtrun::launcher
