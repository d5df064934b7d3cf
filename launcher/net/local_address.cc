#include "launcher/net/local_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"
#include "base/link_zone.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

using Interfaces = std::vector<InterfaceAddress>;

struct Number {
  std::array<unsigned char, 16> bytes = {};
  int bits = 0;  // 32 or 128
};

std::optional<Number> NumberOf(const std::string& address) {
  Number number;
  if (inet_pton(AF_INET, address.c_str(), number.bytes.data()) == 1) return number.bits = 32, number;
  if (inet_pton(AF_INET6, address.c_str(), number.bytes.data()) == 1) return number.bits = 128, number;
  return std::nullopt;
}

bool IsIpv6Text(const std::string& address) { return absl::StrContains(address, ':'); }

bool IsLinkLocal(const std::string& address) {
  const std::optional<Number> number = NumberOf(address);
  return IsLinkLocalSix(address) ||
         (number && number->bits == 32 && number->bytes[0] == 169 && number->bytes[1] == 254);
}

bool Has(const Interfaces& interfaces, std::string_view name) {
  return std::any_of(interfaces.begin(), interfaces.end(),
                     [&](const InterfaceAddress& each) { return each.interface == name; });
}

absl::Status Wrong(std::string_view text, const std::string& why, const Interfaces& interfaces) {
  return absl::InvalidArgumentError(absl::StrCat("--local_addr: \"", View(text), "\" ", why,
                                                 "; this machine has ", DescribeInterfaces(interfaces)));
}

struct Network {
  Number start;
  int prefix = 0;
  bool Contains(const Number& number) const {
    if (number.bits != start.bits) return false;
    for (int bit = 0; bit < prefix; ++bit) {
      const auto byte = static_cast<size_t>(bit / 8);
      if (((number.bytes[byte] ^ start.bytes[byte]) >> (7 - bit % 8) & 1) != 0) return false;
    }
    return true;
  }
};

std::optional<Network> ParseNetwork(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<Number> start = NumberOf(std::string(text.substr(0, slash)));
  Network network;
  if (!start || !absl::SimpleAtoi(View(text.substr(slash + 1)), &network.prefix)) return std::nullopt;
  if (network.prefix < 0 || network.prefix > start->bits) return std::nullopt;
  network.start = *start;
  return network;
}

absl::StatusOr<std::string> InNetwork(std::string_view text, const Interfaces& interfaces) {
  const std::optional<Network> network = ParseNetwork(text);
  if (!network) return Wrong(text, "is not a network like 10.0.0.0/8 or fd00::/64", interfaces);
  std::string on_loopback;  // the user declares that all nodes are on this machine
  for (const InterfaceAddress& each : interfaces) {
    const std::optional<Number> number = NumberOf(each.address);
    if (!number || !network->Contains(*number)) continue;
    if (each.IsForPeers()) return each.address;
    if (each.loopback && each.up && on_loopback.empty()) on_loopback = each.address;
  }
  if (!on_loopback.empty()) return on_loopback;
  return Wrong(text, "contains no address at which others can reach this machine", interfaces);
}

absl::StatusOr<std::string> OnInterface(std::string_view name, const Interfaces& interfaces, bool six) {
  Interfaces own;
  for (const InterfaceAddress& each : interfaces)
    if (each.interface == name) own.push_back(each);
  if (const std::string found = FirstForPeers(own, six); !found.empty()) return found;
  // The user declares that all nodes are on this machine.
  if (own.front().loopback && own.front().up && !own.front().address.empty()) return own.front().address;
  return Wrong(name, own.front().up ? "has no address that another machine can reach" : "is down",
               interfaces);
}

}  // namespace

bool InterfaceAddress::IsForPeers() const {
  return up && !loopback && !address.empty() && !IsLinkLocal(address);
}

bool MayBeName(std::string_view text, const Interfaces& interfaces) {
  return !text.empty() && text != kAutoAddress && !absl::StrContains(View(text), '/') && !IsIpAddress(text) &&
         !Has(interfaces, text);
}

absl::StatusOr<std::string> ChooseAddress(std::string_view text, const Interfaces& interfaces, bool six,
                                          bool is_known) {
  if (absl::StrContains(View(text), '/')) return InNetwork(text, interfaces);
  if (Has(interfaces, text)) return OnInterface(text, interfaces, six);
  if (!MayBeName(text, interfaces) || is_known || absl::StrContains(View(text), '.'))
    return std::string(text);
  return Wrong(text,
               "is not an address, an interface, a network like 10.0.0.0/8, auto or a name that resolves",
               interfaces);
}

std::string FirstForPeers(const Interfaces& interfaces, bool six) {
  std::string other;
  for (const InterfaceAddress& each : interfaces) {
    if (!each.IsForPeers()) continue;
    if (IsIpv6Text(each.address) == six) return each.address;
    if (other.empty()) other = each.address;
  }
  return other;
}

std::string FirstZone(const Interfaces& interfaces) {
  const auto linked = std::find_if(interfaces.begin(), interfaces.end(), [](const InterfaceAddress& each) {
    return each.up && !each.loopback && IsLinkLocalSix(each.address);
  });
  return linked == interfaces.end() ? "" : linked->interface;
}

std::string InterfaceOf(std::string_view address, const Interfaces& interfaces) {
  const std::optional<Number> wanted = NumberOf(std::string(address));
  for (const InterfaceAddress& each : interfaces) {
    const std::optional<Number> number = NumberOf(each.address);
    if (wanted && number && number->bits == wanted->bits && number->bytes == wanted->bytes)
      return each.loopback ? "" : each.interface;
  }
  return "";
}

std::string DescribeInterfaces(const Interfaces& interfaces) {
  std::vector<std::string> said;
  for (size_t i = 0; i < interfaces.size();) {
    const std::string& name = interfaces[i].interface;
    std::vector<std::string> addresses;
    const bool up = interfaces[i].up;
    for (; i < interfaces.size() && interfaces[i].interface == name; ++i)
      if (!interfaces[i].address.empty()) addresses.push_back(interfaces[i].address);
    if (!up) addresses = {"down"};
    if (addresses.empty()) addresses = {"no address"};
    said.push_back(absl::StrCat(name, " (", absl::StrJoin(addresses, ", "), ")"));
  }
  return said.empty() ? "no network interface" : absl::StrJoin(said, ", ");
}

}  // namespace mtrun::launcher
