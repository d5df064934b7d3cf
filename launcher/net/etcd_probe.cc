#include "launcher/net/etcd_probe.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::launcher {
namespace {

bool Becomes(int fd, short events, Duration patience) {
  pollfd ready = {fd, events, 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  return poll(&ready, 1, static_cast<int>(milliseconds)) == 1;
}

UniqueFd Connect(const addrinfo& address, Duration patience) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return UniqueFd();
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS || !Becomes(socket.get(), POLLOUT, patience)) return UniqueFd();
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::move(socket) : UniqueFd();
}

}  // namespace

bool EtcdAnswers(const Endpoint& endpoint, Duration patience) {
  addrinfo hints = {}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(endpoint.host.c_str(), absl::StrCat(endpoint.port).c_str(), &hints, &list) != 0)
    return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  const UniqueFd socket = Connect(*list, patience);
  if (!socket.valid()) return false;
  const std::string request = "GET /version HTTP/1.0\r\n\r\n";
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return false;
  std::string reply;
  const TimePoint end = MonotonicNow() + patience;
  while (reply.size() < 4096 && reply.find("etcdserver") == std::string::npos) {
    const Duration left = end - MonotonicNow();
    char bytes[1024];
    if (left <= Duration::zero() || !Becomes(socket.get(), POLLIN, left)) return false;
    const ssize_t size = recv(socket.get(), bytes, sizeof bytes, 0);
    if (size <= 0) return false;
    reply.append(bytes, static_cast<size_t>(size));
  }
  return reply.find("etcdserver") != std::string::npos;
}

}  // namespace mtrun::launcher
