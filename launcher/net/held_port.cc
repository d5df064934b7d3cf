#include "launcher/net/held_port.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/socket_address.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

/// Binds a dual-stack socket, like TCPStore's own; on machines without IPv6 the caller uses IPv4.
absl::StatusOr<UniqueFd> Bind(int family, int port) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ErrnoStatus(errno, "make a socket to hold MASTER_PORT");
  const int on = 1, off = 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  // The port has the same offset in both kinds of address.
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<uint16_t>(port));
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return ErrnoStatus(errno, port == 0 ? "bind a free port for MASTER_PORT"
                                        : absl::StrCat("bind port ", port, " for MASTER_PORT"));
  }
  return socket;
}

}  // namespace

absl::StatusOr<HeldPort> HeldPort::Open(int port, const PortRange& ports) {
  const auto bind_within = [&](int family) {
    if (port != 0) return Bind(family, port);
    return OpenWithin(ports, RandomBits(), [&](int free) { return Bind(family, free); });
  };
  absl::StatusOr<UniqueFd> socket = bind_within(AF_INET6);
  if (!socket.ok()) socket = bind_within(AF_INET);
  MT_RETURN_IF_ERROR(socket.status());
  HeldPort held;
  held.port_ = PortOf(socket->get());
  if (held.port_ == 0) return ErrnoStatus(errno, "read the number of the held port");
  held.socket_ = *std::move(socket);
  return held;
}

absl::Status HeldPort::Listen() {
  if (listen(socket_.get(), SOMAXCONN) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("listen on port ", port_, " for MASTER_PORT"));
}

std::string LoopbackAddress() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool has_four =
      socket.valid() && bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return has_four ? "127.0.0.1" : "::1";
}

absl::StatusOr<Route> RouteTo(const Endpoint& endpoint) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const std::string port = absl::StrCat(endpoint.port);
  if (const int error = getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return absl::UnavailableError(absl::StrCat("the endpoint's host \"", endpoint.host,
                                               "\" does not resolve: ", gai_strerror(error),
                                               "; give an address, or this node's as --local_addr"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::string reason = "no address";
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const UniqueFd socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.valid() && connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0)
      return Route{LocalAddressOf(socket.get()), NumericText(entry->ai_addr)};
    reason = std::string(ErrnoStatus(errno, "connect").message());
  }
  return absl::UnavailableError(
      absl::StrCat("no route to the endpoint's host ", endpoint.host, ": ", reason));
}

absl::StatusOr<std::string> AddressTowards(const Endpoint& endpoint, bool hosting) {
  if (IsLoopback(endpoint.host)) return LoopbackAddress();
  if (hosting && IsIpAddress(endpoint.host)) return endpoint.host;
  MT_ASSIGN_OR_RETURN(const Route route, RouteTo(endpoint));
  // A host's own name often resolves to 127.0.1.1 on itself; the others have resolved the same name.
  return IsLoopback(route.own) ? endpoint.host : route.own;
}

}  // namespace mtrun::launcher
