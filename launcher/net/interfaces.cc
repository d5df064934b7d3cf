#include "launcher/net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "base/socket_address.h"
#include "base/status_macros.h"
#include "launcher/net/held_port.h"

namespace mtrun::launcher {
namespace {

// Documentation addresses (RFC 5737, RFC 3849): only their route is looked up, nothing is sent.
constexpr const char* kElsewhere4 = "192.0.2.1";
constexpr const char* kElsewhere6 = "2001:db8::1";

bool IsSix(const Endpoint& endpoint) {
  return IsIpAddress(endpoint.host) && absl::StrContains(endpoint.host, ':');
}

}  // namespace

std::vector<InterfaceAddress> ListInterfaces() {
  ifaddrs* list = nullptr;
  std::vector<InterfaceAddress> found;
  if (getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<std::string> names;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (std::find(names.begin(), names.end(), entry->ifa_name) == names.end())
      names.push_back(entry->ifa_name);
  }
  for (const std::string& name : names) {
    const size_t before = found.size();
    InterfaceAddress each{.interface = name};
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (name != entry->ifa_name) continue;
      each.up = (entry->ifa_flags & IFF_UP) != 0;
      each.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      each.address = NumericText(entry->ifa_addr);
      if (!each.address.empty()) found.push_back(each);
    }
    if (found.size() == before) found.push_back(each);
  }
  return found;
}

absl::StatusOr<std::string> ChooseOwnAddress(const std::string& text, const Endpoint& endpoint) {
  const std::vector<InterfaceAddress> interfaces = ListInterfaces();
  const bool is_known = MayBeName(text, interfaces) && !ResolveHost(text).empty();
  return ChooseAddress(text, interfaces, IsSix(endpoint), is_known);
}

absl::StatusOr<std::string> AutoAddress(const Endpoint& endpoint) {
  MT_ASSIGN_OR_RETURN(const std::string towards, AddressTowards(endpoint, /*hosting=*/false));
  // All nodes are on this machine.
  if (IsLoopback(endpoint.host)) return towards;
  if (IsIpAddress(towards) && !IsLoopback(towards)) return towards;
  for (const char* elsewhere : {kElsewhere4, kElsewhere6}) {
    const absl::StatusOr<std::string> leaving = AddressTowards({elsewhere, 1}, /*hosting=*/false);
    if (leaving.ok() && IsIpAddress(*leaving) && !IsLoopback(*leaving)) return leaving;
  }
  const std::string first = FirstForPeers(ListInterfaces(), IsSix(endpoint));
  return first.empty() ? towards : first;
}

}  // namespace mtrun::launcher
