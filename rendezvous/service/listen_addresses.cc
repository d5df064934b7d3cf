#include "rendezvous/service/listen_addresses.h"

#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "rendezvous/service/address_list.h"

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
  const AddressList list = Resolve({address, 0}, AI_NUMERICHOST);
  if (list == nullptr) return false;
  const UniqueFd socket(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket.valid() && bind(socket.get(), list->ai_addr, list->ai_addrlen) == 0;
}

}  // namespace mtrun::rendezvous
