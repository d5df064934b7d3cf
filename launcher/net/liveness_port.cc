#include "launcher/net/liveness_port.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

absl::StatusOr<UniqueFd> Listen(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ErrnoStatus(errno, "make the presence port");
  const int off = 0;
  if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  // Without a bind the kernel chooses a free port on every address.
  if (listen(socket.get(), SOMAXCONN) != 0) return ErrnoStatus(errno, "listen on the presence port");
  return socket;
}

}  // namespace

absl::StatusOr<LivenessPort> LivenessPort::Open() {
  absl::StatusOr<UniqueFd> socket = Listen(AF_INET6);
  if (!socket.ok()) socket = Listen(AF_INET);
  MT_RETURN_IF_ERROR(socket.status());
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return ErrnoStatus(errno, "read the number of the presence port");
  LivenessPort presence;
  presence.socket_ = *std::move(socket);
  presence.port_ = ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return presence;
}

}  // namespace mtrun::launcher
