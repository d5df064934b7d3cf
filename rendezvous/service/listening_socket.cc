#include "rendezvous/service/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rendezvous/service/address_list.h"

namespace mtrun::rendezvous {
namespace {

constexpr unsigned kUserTimeoutMs = 5000;  // like gRPC's keepalive: a peer that acknowledges nothing is gone

absl::Status CannotListen(const Endpoint& endpoint) {
  return absl::AlreadyExistsError(absl::StrCat("cannot listen on ", ToText(endpoint),
                                               ": the port is in use, or the address is not "
                                               "one of this machine"));
}

absl::StatusOr<UniqueFd> ListenAtOne(const addrinfo& address, const Endpoint& endpoint) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return ErrnoStatus(errno, "make a listening socket");
  const int on = 1, off = 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  if (address.ai_family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    return CannotListen(endpoint);
  return socket;
}

absl::StatusOr<std::vector<UniqueFd>> ListenAtAll(const Endpoint& endpoint) {
  const AddressList list = Resolve(endpoint, AI_PASSIVE);
  if (list == nullptr) return CannotListen(endpoint);
  std::vector<UniqueFd> sockets;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    MT_ASSIGN_OR_RETURN(UniqueFd socket, ListenAtOne(*address, endpoint));
    sockets.push_back(std::move(socket));
    if (endpoint.port == 0) break;  // the others would get other ports
  }
  return sockets;
}

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> ListenAt(const std::vector<Endpoint>& addresses) {
  std::vector<UniqueFd> sockets;
  for (const Endpoint& endpoint : addresses) {
    absl::StatusOr<std::vector<UniqueFd>> more = ListenAtAll(endpoint);
    if (!more.ok() && endpoint.host == "::") more = ListenAtAll({"0.0.0.0", endpoint.port});
    MT_RETURN_IF_ERROR(more.status());
    for (UniqueFd& socket : *more) sockets.push_back(std::move(socket));
  }
  return sockets;
}

}  // namespace mtrun::rendezvous
