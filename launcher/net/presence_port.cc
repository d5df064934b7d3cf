#include "launcher/net/presence_port.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/presence_greeting.h"
#include "base/socket_address.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

// Shell scripts use descriptors 0 to 9: "exec 3>log" in a worker would close the port.
constexpr int kLowestNumber = 10;

absl::Status BindPresence(int socket, int family, bool on_loopback, int port) {
  sockaddr_storage address = {};  // every address
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  address.ss_family = static_cast<sa_family_t>(family);
  four.sin_port = htons(static_cast<uint16_t>(port));  // at the same offset in both
  if (on_loopback && family == AF_INET) four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (on_loopback && family == AF_INET6) six.sin6_addr = in6addr_loopback;
  const socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return ErrnoStatus(errno, "bind the presence port");
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> Listen(int family, bool on_loopback, int port) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return ErrnoStatus(errno, "make the presence port");
  const int off = 0;
  if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  MT_RETURN_IF_ERROR(BindPresence(socket.get(), family, on_loopback, port));
  if (listen(socket.get(), SOMAXCONN) != 0) return ErrnoStatus(errno, "listen on the presence port");
  return socket;
}

/// Duplicates the socket without CLOEXEC, unlike all other descriptors of mtrun: a worker that outlives
/// guardian and agent must keep the port open.
absl::StatusOr<UniqueFd> MakeInheritable(const UniqueFd& socket) {
  UniqueFd inherited(fcntl(socket.get(), F_DUPFD, kLowestNumber));
  if (!inherited.valid()) return ErrnoStatus(errno, "pass the presence port on");
  return inherited;
}

}  // namespace

absl::StatusOr<PresencePort> PresencePort::Open(bool on_loopback, const PortRange& ports) {
  const auto listen_within = [&](int family) {
    return OpenWithin(ports, RandomBits(), [&](int port) { return Listen(family, on_loopback, port); });
  };
  // Like LoopbackAddress: IPv4 loopback, unless this machine has only IPv6.
  absl::StatusOr<UniqueFd> socket = listen_within(on_loopback ? AF_INET : AF_INET6);
  if (!socket.ok()) socket = listen_within(on_loopback ? AF_INET6 : AF_INET);
  MT_RETURN_IF_ERROR(socket.status());
  PresencePort presence;
  presence.port_ = PortOf(socket->get());
  if (presence.port_ == 0) return ErrnoStatus(errno, "read the number of the presence port");
  MT_ASSIGN_OR_RETURN(presence.fd_, MakeInheritable(*socket));
  while (presence.id_ == 0) presence.id_ = RandomBits();
  presence.greeting_ = PresenceGreeting(presence.id_);
  return presence;
}

bool PresencePort::Greet(int most) {
  for (int greeted = 0; greeted < most; ++greeted) {
    const UniqueFd caller(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!caller.valid() && errno == EAGAIN) return true;
    if (!caller.valid() && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!caller.valid()) return false;
    // A new connection has buffer space for it; a peer that is gone does not need it.
    [[maybe_unused]] const ssize_t sent =
        send(caller.get(), greeting_.data(), greeting_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return true;
}

}  // namespace mtrun::launcher
