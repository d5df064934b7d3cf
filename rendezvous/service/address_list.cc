#include "rendezvous/service/address_list.h"

#include <sys/socket.h>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

AddressList Resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(endpoint.host.c_str(), absl::StrCat(endpoint.port).c_str(), &hints, &found) != 0)
    found = nullptr;
  return AddressList(found, &freeaddrinfo);
}

}  // namespace mtrun::rendezvous
