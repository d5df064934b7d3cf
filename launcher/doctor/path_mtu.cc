#include "launcher/doctor/path_mtu.h"

#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/posix.h"

namespace mtrun::launcher {
namespace {

constexpr int kProbePatienceMs = 700;
constexpr int kHeaders4 = 28, kHeaders6 = 48;  // IP and UDP
constexpr int kMaxPayload = 65507;
constexpr int kMaxSizes = 3;  // routers on the path that each require smaller packets

/// A connected UDP socket whose datagrams must not be fragmented.
class Probe {
 public:
  Probe(const sockaddr* address, socklen_t size)
      : six_(address->sa_family == AF_INET6),
        socket_(::socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const int strictly = six_ ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;
    setsockopt(socket_.get(), six_ ? IPPROTO_IPV6 : IPPROTO_IP, six_ ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
               &strictly, sizeof strictly);
    connected_ = socket_.valid() && connect(socket_.get(), address, size) == 0;
  }

  /// Returns 0 if unknown.
  int Mtu() const {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    if (!connected_ || getsockopt(socket_.get(), six_ ? IPPROTO_IPV6 : IPPROTO_IP, six_ ? IPV6_MTU : IP_MTU,
                                  &bytes, &size) != 0)
      return 0;
    return bytes;
  }

  enum class Answer { kArrived, kTooLarge, kNone };
  /// Sends a packet of `bytes`, including headers.
  Answer Ask(int bytes) const {
    const int payload = std::clamp(bytes - (six_ ? kHeaders6 : kHeaders4), 1, kMaxPayload);
    const std::vector<char> zeros(static_cast<size_t>(payload));
    if (send(socket_.get(), zeros.data(), zeros.size(), MSG_NOSIGNAL) < 0) return Judge(errno);
    pollfd ready = {socket_.get(), POLLIN, 0};
    if (poll(&ready, 1, kProbePatienceMs) != 1) return Answer::kNone;
    char byte = 0;
    return recv(socket_.get(), &byte, 1, 0) < 0 ? Judge(errno) : Answer::kArrived;
  }

 private:
  static Answer Judge(int error) {
    if (error == ECONNREFUSED) return Answer::kArrived;  // "port unreachable", from the host itself
    return error == EMSGSIZE ? Answer::kTooLarge : Answer::kNone;
  }

  const bool six_;
  const UniqueFd socket_;
  bool connected_ = false;
};

}  // namespace

PathMtu ProbePathMtu(const sockaddr* address, socklen_t size) {
  const Probe probe(address, size);
  PathMtu found = {probe.Mtu(), MtuProof::kNone};
  if (found.bytes == 0) return found;
  Probe::Answer answer = probe.Ask(found.bytes);
  for (int i = 1; i < kMaxSizes && answer == Probe::Answer::kTooLarge; ++i) {
    found.bytes = probe.Mtu();
    answer = probe.Ask(found.bytes);
  }
  if (answer == Probe::Answer::kArrived) return found.proof = MtuProof::kArrives, found;
  if (probe.Ask(1) != Probe::Answer::kArrived) return found;
  // A packet may be lost, or its answer suppressed: hosts limit the rate of these answers.
  const bool arrives = probe.Ask(found.bytes) == Probe::Answer::kArrived;
  return found.proof = arrives ? MtuProof::kArrives : MtuProof::kLost, found;
}

}  // namespace mtrun::launcher
