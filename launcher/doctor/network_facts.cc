#include "launcher/doctor/network_facts.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/timex.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/token.h"
#include "base/value_or.h"
#include "launcher/doctor/machine_facts.h"
#include "launcher/net/interfaces.h"

namespace mtrun::launcher {
namespace {

/// Returns 0, or the errno of binding the port at every address and listening there, as a service does.
int TryToListen(int port) {
  for (const int family : {AF_INET6, AF_INET}) {
    const UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid() && errno == EAFNOSUPPORT && family == AF_INET6) continue;  // a machine without IPv6
    if (!socket.valid()) return errno;
    const int on = 1, off = 0;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_storage any = {};
    any.ss_family = static_cast<sa_family_t>(family);
    // The port has the same offset in both kinds of address.
    reinterpret_cast<sockaddr_in&>(any).sin_port = htons(static_cast<uint16_t>(port));
    const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), size) != 0) return errno;
    return listen(socket.get(), 1) == 0 ? 0 : errno;
  }
  return EAFNOSUPPORT;
}

PortFacts LookAtPorts(const Options& options, int listens) {
  PortFacts facts{.endpoint_port = listens, .range = options.port_range};
  if (listens > 0) {
    const int error = TryToListen(listens);
    if (error == EADDRINUSE) facts.endpoint_error = absl::StrCat("port ", listens, " is in use");
    if (error != 0 && error != EADDRINUSE)
      facts.endpoint_error =
          std::string(ErrnoStatus(error, absl::StrCat("listen on port ", listens)).message());
  }
  const absl::StatusOr<std::string> given_out = ReadFile("/proc/sys/net/ipv4/ip_local_port_range");
  if (given_out.ok()) std::istringstream(*given_out) >> facts.low >> facts.high;
  if (const int error = TryToListen(0); error != 0)
    facts.free_error = std::string(ErrnoStatus(error, "listen on any free port").message());
  if (!options.port_range.any()) {
    for (int port = options.port_range.low; port <= options.port_range.high; ++port)
      facts.free_in_range += TryToListen(port) == 0 ? 1 : 0;
  }
  return facts;
}

ClockFacts LookAtClock() {
  timex clock = {};
  const int state = adjtimex(&clock);
  ClockFacts facts;
  facts.known = state >= 0;
  facts.synchronised = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
  facts.most_wrong = std::chrono::microseconds(clock.maxerror);
  return facts;
}

TokenFacts LookAtToken(const Options& options, const EnvironmentMap& environment) {
  TokenFacts facts{.insecure = options.insecure, .given = !options.token_file.empty()};
  if (facts.insecure) return facts;
  const bool by_variable = !facts.given && !ValueOr(environment, kTokenVariable).empty();
  const std::string path = DefaultTokenPath(environment);
  facts.from = facts.given ? options.token_file : by_variable ? kTokenVariable : path;
  facts.status =
      LoadToken({options.token_file, options.weak_token}, MissingToken::kRefuse, environment).status();
  if (absl::IsNotFound(facts.status) && !facts.given && !by_variable)
    facts.make_error = LookAtFolder("token", path.substr(0, path.rfind('/')), facts.given).error;
  return facts;
}

NameFacts LookAtName() {
  NameFacts facts{.own = HostName()};
  const TimePoint before = MonotonicNow();
  facts.addresses = ResolveHost(facts.own);
  facts.took = MonotonicNow() - before;
  return facts;
}

absl::StatusOr<std::string> OwnAddress(const Options& options) {
  if (options.local_addr.empty()) return std::string();
  const Endpoint endpoint =
      options.asked.empty() ? Endpoint{} : ParseEndpoint(options.asked.front()).value_or(Endpoint{});
  if (options.local_addr == kAutoAddress && endpoint.host.empty()) {
    const std::string first = FirstForPeers(ListInterfaces(), /*six=*/false);
    return first.empty() ? std::string("127.0.0.1") : first;
  }
  return options.local_addr == kAutoAddress ? AutoAddress(endpoint)
                                            : ChooseOwnAddress(options.local_addr, endpoint);
}

}  // namespace

NodeFacts LookAtNode(const Options& options, const EnvironmentMap& environment, bool several, int listens) {
  NodeFacts facts;
  facts.several = several;
  facts.ports = LookAtPorts(options, listens);
  facts.clock = LookAtClock();
  facts.token = LookAtToken(options, environment);
  facts.name = LookAtName();
  facts.local_addr = options.local_addr;
  facts.address = OwnAddress(options);
  facts.interfaces = ListInterfaces();
  return facts;
}

}  // namespace mtrun::launcher
