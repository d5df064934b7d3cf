#include "launcher/net/etcd_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::launcher {
namespace {

constexpr std::string_view kRequest = "GET /version HTTP/1.0\r\n\r\n";
constexpr size_t kMaxReply = 4096;

struct Probe {
  UniqueFd socket;  // closed if the address has no etcd
  bool asked = false;
  std::string reply = {};
};

/// Returns a socket that is connecting to a numeric address, or none.
UniqueFd BeginConnect(const std::string& address, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(address.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) return UniqueFd();
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A failure shows as an error of send().
  if (socket.valid()) static_cast<void>(connect(socket.get(), found->ai_addr, found->ai_addrlen));
  return socket;
}

/// Continues on a socket that is ready. Returns true if its server is etcd.
bool Advance(Probe& probe) {
  if (!probe.asked) {
    probe.asked = true;
    const ssize_t sent = send(probe.socket.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(kRequest.size())) probe.socket.Reset();
    return false;
  }
  char bytes[1024];
  const ssize_t size = recv(probe.socket.get(), bytes, sizeof bytes, 0);
  if (size > 0) probe.reply.append(bytes, static_cast<size_t>(size));
  if (size <= 0 || probe.reply.size() >= kMaxReply) probe.socket.Reset();
  return probe.reply.find("etcdserver") != std::string::npos;
}

}  // namespace

bool EtcdAnswers(const Endpoint& endpoint, Duration timeout, const Resolver& resolve) {
  const TimePoint end = MonotonicNow() + timeout;
  std::vector<Probe> probes;
  for (const std::string& address : resolve(endpoint.host))
    probes.push_back({.socket = BeginConnect(address, endpoint.port)});
  while (true) {
    std::erase_if(probes, [](const Probe& probe) { return !probe.socket.valid(); });
    std::vector<pollfd> waits;
    for (const Probe& probe : probes)
      waits.push_back({probe.socket.get(), static_cast<short>(probe.asked ? POLLIN : POLLOUT), 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - MonotonicNow()).count();
    if (probes.empty() || left <= 0 || poll(waits.data(), waits.size(), static_cast<int>(left)) <= 0)
      return false;
    for (size_t i = 0; i < probes.size(); ++i) {
      if (waits[i].revents != 0 && Advance(probes[i])) return true;
    }
  }
}

}  // namespace mtrun::launcher
