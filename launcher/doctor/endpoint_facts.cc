#include "launcher/doctor/endpoint_facts.h"

#include <linux/tcp.h>  // <netinet/tcp.h> lacks some fields
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "base/posix.h"
#include "base/socket_address.h"
#include "launcher/net/interfaces.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/service/address_list.h"
#include "rendezvous/service/listen_addresses.h"

namespace mtrun::launcher {
namespace {

constexpr int kPatienceMs = 3000;
constexpr Duration kAnswerPatience = std::chrono::seconds(5);

/// Returns "connection refused", for use in a sentence.
std::string Words(int error) {
  std::string text = strerror(error);
  if (!text.empty()) text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
  return text;
}

/// Returns 0 if it connects, otherwise errno.
int Connect(const UniqueFd& socket, const addrinfo& address) {
  if (!socket.valid()) return errno;
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready = {socket.get(), POLLOUT, 0};
  if (poll(&ready, 1, kPatienceMs) != 1) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

/// Returns the round trip time that the kernel measured while connecting.
Duration RoundTrip(const UniqueFd& socket) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return Duration::zero();
  return std::chrono::microseconds(info.tcpi_rtt);
}

int MtuOf(const std::string& interface) {
  const UniqueFd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) return 0;
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

void Measure(const UniqueFd& socket, const addrinfo& address, EndpointFacts* facts) {
  facts->answering = NumericText(address.ai_addr);
  facts->round_trip = RoundTrip(socket);
  facts->own_address = LocalAddressOf(socket.get());
  facts->interface = InterfaceOf(facts->own_address, ListInterfaces());
  facts->interface_mtu = MtuOf(facts->interface);
  facts->mtu = ProbePathMtu(address.ai_addr, address.ai_addrlen);
}

}  // namespace

EndpointFacts Reach(const Endpoint& endpoint) {
  EndpointFacts facts{.endpoint = endpoint};
  const TimePoint before = MonotonicNow();
  const rendezvous::AddressList list = rendezvous::Resolve(endpoint);
  facts.resolving = MonotonicNow() - before;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const std::string text = NumericText(entry->ai_addr);
    facts.addresses.push_back(text);
    facts.here = facts.here || rendezvous::IsOwn(text);
    const UniqueFd socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int error = Connect(socket, *entry);
    if (error != 0) {
      facts.failed = text;
      facts.error = Words(error);
    } else if (facts.answering.empty()) {
      Measure(socket, *entry, &facts);
    }
  }
  return facts;
}

void AskService(const rendezvous::Credentials& credentials, EndpointFacts* facts) {
  facts->insecure = credentials.insecure;
  std::string token;
  if (!credentials.insecure) {
    absl::StatusOr<std::string> loaded = LoadToken(credentials.token, MissingToken::kRefuse);
    if (!loaded.ok()) {
      facts->not_asked = "there is no token to show";
      return;
    }
    token = *std::move(loaded);
  }
  const int64_t before = WallClockNs();
  const absl::StatusOr<rendezvous::ServiceStatus> answer =
      rendezvous::ReadStatus(ToText(facts->endpoint), credentials.insecure, token, kAnswerPatience);
  const int64_t after = WallClockNs();
  ServiceFacts& service = facts->service.emplace();
  service.status = answer.status();
  if (!answer.ok()) return;
  service.uptime = answer->uptime;
  service.jobs = answer->jobs.size();
  service.tells_time = answer->wall_clock_ns != 0;
  service.clock_ahead = Duration((before + after) / 2 - answer->wall_clock_ns);
  service.clock_doubt = Duration((after - before) / 2);
  service.throughput = rendezvous::MeasureThroughput(ToText(facts->endpoint), credentials.insecure, token);
}

}  // namespace mtrun::launcher
