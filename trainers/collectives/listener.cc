#include "trainers/collectives/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/socket_address.h"
#include "base/status_macros.h"
#include "base/unix_address.h"

namespace mtrun::collectives {
namespace {

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

absl::StatusOr<UniqueFd> BindTcp(const sockaddr* address, socklen_t size, int* port) {
  UniqueFd fd(socket(address->sa_family, kSocketFlags, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "create a TCP socket");
  const int off = 0;
  if (address->sa_family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd.get(), address, size) != 0) return ErrnoStatus(errno, "bind a TCP socket");
  if (listen(fd.get(), SOMAXCONN) != 0) return ErrnoStatus(errno, "listen on a TCP socket");
  *port = PortOf(fd.get());
  if (*port == 0) return ErrnoStatus(errno, "read a TCP socket's port");
  return fd;
}

absl::Status DialOne(const addrinfo& target, std::vector<UniqueFd>& sockets) {
  UniqueFd fd(socket(target.ai_family, kSocketFlags, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "create a TCP socket");
  TuneTcp(fd.get());
  if (connect(fd.get(), target.ai_addr, target.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoStatus(errno, "connect");
  }
  sockets.push_back(std::move(fd));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> ListenUnix(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, kSocketFlags, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "create a Unix socket");
  MT_ASSIGN_OR_RETURN(const UnixAddress target, ParseUnixAddress("@" + name));
  if (bind(fd.get(), target.get(), target.size) != 0) {
    return ErrnoStatus(errno, absl::StrCat("bind the abstract Unix socket ", name));
  }
  if (listen(fd.get(), SOMAXCONN) != 0) return ErrnoStatus(errno, "listen on a Unix socket");
  return fd;
}

absl::StatusOr<UniqueFd> ListenTcp(const std::string& address, const PortRange& ports, int* port) {
  const auto bind_within = [&](auto& at, in_port_t* number) {
    return OpenWithin(ports, RandomBits(), [&](int free) {
      *number = htons(static_cast<uint16_t>(free));
      return BindTcp(reinterpret_cast<const sockaddr*>(&at), sizeof(at), port);
    });
  };
  if (IsLoopback(address, NamesAsTheySay)) {
    sockaddr_in four = {};
    sockaddr_in6 six = {};
    four.sin_family = AF_INET;
    six.sin6_family = AF_INET6;
    if (inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1) return bind_within(four, &four.sin_port);
    if (inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1) return bind_within(six, &six.sin6_port);
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (auto fd = bind_within(four, &four.sin_port); fd.ok()) return fd;
    six.sin6_addr = in6addr_loopback;  // machines with only IPv6
    return bind_within(six, &six.sin6_port);
  }
  sockaddr_in6 any6 = {};
  any6.sin6_family = AF_INET6;
  if (auto fd = bind_within(any6, &any6.sin6_port); fd.ok()) return fd;
  sockaddr_in any4 = {};  // machines without IPv6
  any4.sin_family = AF_INET;
  return bind_within(any4, &any4.sin_port);
}

absl::StatusOr<UniqueFd> DialUnix(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, kSocketFlags, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "create a Unix socket");
  MT_ASSIGN_OR_RETURN(const UnixAddress target, ParseUnixAddress("@" + name));
  if (connect(fd.get(), target.get(), target.size) != 0) {
    if (errno == EAGAIN) return absl::AbortedError(absl::StrCat("the queue of ", name, " is full"));
    return ErrnoStatus(errno, absl::StrCat("connect to the abstract Unix socket ", name));
  }
  return fd;
}

absl::StatusOr<std::vector<UniqueFd>> DialTcp(const std::vector<std::string>& addresses, int port) {
  std::vector<UniqueFd> sockets;
  absl::Status last = absl::UnavailableError("it published no address");
  for (const std::string& address : addresses) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(address.c_str(), absl::StrCat(port).c_str(), &hints, &found);
        error != 0) {
      last = absl::UnavailableError(absl::StrCat("resolve ", address, ": ", gai_strerror(error)));
      continue;
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
    for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
      if (absl::Status status = DialOne(*target, sockets); !status.ok()) last = Annotate(status, address);
    }
  }
  if (sockets.empty()) return last;
  return sockets;
}

UniqueFd AcceptOne(int listener) {
  return UniqueFd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

std::string PlaceOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (address.ss_family == AF_UNIX) {
    ucred process = {};
    size = sizeof(process);
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &process, &size);
    return absl::StrCat("process ", process.pid);
  }
  char text[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

void TuneTcp(int fd) {
  const int on = 1, idle = 5, interval = 2, probes = 3;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

}  // namespace mtrun::collectives
