#include "rendezvous/service/listen_addresses.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::rendezvous {

absl::StatusOr<std::vector<Endpoint>> ListenAddresses(const Endpoint& listen, const Resolver& resolve,
                                                      const std::function<bool(const std::string&)>& is_own) {
  std::vector<std::string> hosts = {listen.host};
  if (!IsIpAddress(listen.host)) hosts = resolve(listen.host);
  if (!IsLoopback(listen.host, [&](const std::string&) { return hosts; }))
    return std::vector<Endpoint>{listen};
  std::stable_partition(hosts.begin(), hosts.end(),
                        [](const std::string& host) { return !absl::StrContains(host, ':'); });
  if (hosts.size() > 1) std::erase_if(hosts, [&](const std::string& host) { return !is_own(host); });
  if (hosts.empty())
    return absl::InvalidArgumentError(absl::StrCat("no address of ", listen.host, " is this machine's"));
  if (listen.port == 0) hosts.resize(1);
  std::vector<Endpoint> addresses;
  for (const std::string& host : hosts) addresses.push_back({host, listen.port});
  return addresses;
}

bool IsOwn(const std::string& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &list) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  const UniqueFd socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket.valid() && bind(socket.get(), list->ai_addr, list->ai_addrlen) == 0;
}

}  // namespace mtrun::rendezvous
