#include "rendezvous/service/address_list.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "base/link_zone.h"

namespace mtrun::rendezvous {

AddressList Resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const std::string host = WithZone(endpoint.host, LinkZone());
  if (getaddrinfo(host.c_str(), absl::StrCat(endpoint.port).c_str(), &hints, &found) != 0) found = nullptr;
  return AddressList(found, &freeaddrinfo);
}

bool HasIpv6() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return true;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET6) continue;
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    if (!IN6_IS_ADDR_LOOPBACK(&six) && !IN6_IS_ADDR_LINKLOCAL(&six)) return true;
  }
  return false;
}

bool CannotBeAsked(const addrinfo& address, int error, const std::function<bool()>& has_ipv6) {
  if (error == EAFNOSUPPORT) return true;
  const bool no_way = error == ENETUNREACH || error == EADDRNOTAVAIL;
  return no_way && address.ai_family == AF_INET6 && !has_ipv6();
}

}  // namespace mtrun::rendezvous
