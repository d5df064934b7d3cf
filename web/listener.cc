#include "web/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/socket_address.h"
#include "base/status_macros.h"

namespace mtrun::web {
namespace {

bool HasIpv6() { return UniqueFd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)).valid(); }

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(int family, const std::string& address, int port) {
  addrinfo hints = {};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string service = absl::StrCat(port);
  const int error = getaddrinfo(address.empty() ? nullptr : address.c_str(), service.c_str(), &hints, &list);
  if (error != 0)
    return absl::InvalidArgumentError(absl::StrCat("listen on \"", address, "\": ", gai_strerror(error)));
  return AddressList(list, freeaddrinfo);
}

absl::StatusOr<UniqueFd> Bind(const addrinfo& at, int port) {
  const auto failed = [port](int error) {
    return absl::UnavailableError(ErrnoStatus(error, absl::StrCat("listen on port ", port)).message());
  };
  UniqueFd socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return failed(errno);
  const int on = 1, off = 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0) return failed(errno);
  if (listen(socket.get(), SOMAXCONN) != 0) return failed(errno);
  return socket;
}

}  // namespace

absl::StatusOr<Listener> Listen(const std::string& address, int port) {
  const int family = !address.empty() ? AF_UNSPEC : HasIpv6() ? AF_INET6 : AF_INET;
  MT_ASSIGN_OR_RETURN(const AddressList list, Resolve(family, address, port));
  MT_ASSIGN_OR_RETURN(UniqueFd socket, Bind(*list, port));
  const int bound = PortOf(socket.get());
  if (bound == 0) return ErrnoStatus(errno, "read the port number");
  return Listener{std::move(socket), bound};
}

absl::StatusOr<std::optional<Accepted>> Accept(int listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  UniqueFd socket(
      accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.valid()) {
    // Otherwise the last bytes of an answer wait for the client's acknowledgement, which can take 40 ms.
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return Accepted{std::move(socket), NumericText(address)};
  }
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
    return ErrnoStatus(errno, "accept a connection");
  return std::nullopt;  // none is pending, or it has already been closed
}

}  // namespace mtrun::web
