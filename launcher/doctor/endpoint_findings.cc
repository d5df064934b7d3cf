#include "launcher/doctor/endpoint_findings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kSlowName = std::chrono::seconds(1);
constexpr Duration kSlowRoundTrip = std::chrono::milliseconds(100);
constexpr Duration kClocksApart = std::chrono::seconds(1);
constexpr double kSlowBitsPerSecond = 0.5e9;  // below Gigabit Ethernet, with a margin for a busy one

std::string Milliseconds(Duration duration) { return absl::StrFormat("%.3g ms", ToSeconds(duration) * 1000); }

/// Finding for an endpoint that cannot be reached.
Finding JudgeSilence(const EndpointFacts& facts) {
  const std::string endpoint = ToText(facts.endpoint);
  if (facts.addresses.empty()) {
    return {Health::kFail, "endpoint", absl::StrCat(endpoint, ": the name does not resolve"),
            "check the spelling, or give an address"};
  }
  if (facts.here) {
    return {Health::kOk, "endpoint",
            absl::StrCat("nothing listens at ", endpoint,
                         " yet; it is this machine, so an mtrun here would host it")};
  }
  const bool refused = facts.error == "connection refused";
  std::string found = absl::StrCat("nothing answers at ", endpoint);
  if (facts.addresses != std::vector{facts.endpoint.host})
    absl::StrAppend(&found, " (", absl::StrJoin(facts.addresses, ", "), ")");
  return {Health::kFail, "endpoint", absl::StrCat(found, ": ", facts.error),
          refused ? "start mtrdzv or that node's mtrun first, and check the port number"
                  : "check the address, the cable and the firewalls in between"};
}

Finding JudgeReach(const EndpointFacts& facts) {
  std::string found = absl::StrCat(ToText(facts.endpoint), " answers");
  if (facts.answering != facts.endpoint.host) absl::StrAppend(&found, " at ", facts.answering);
  absl::StrAppend(&found, ", round trip ", Milliseconds(facts.round_trip));
  if (!facts.own_address.empty()) absl::StrAppend(&found, ", from ", facts.own_address);
  if (!facts.interface.empty()) absl::StrAppend(&found, " on ", facts.interface);
  if (!facts.error.empty()) {
    return {Health::kWarn, "endpoint", absl::StrCat(found, "; not at ", facts.failed, " (", facts.error, ")"),
            "name only addresses that answer"};
  }
  if (facts.resolving >= kSlowName) {
    return {Health::kWarn, "endpoint",
            absl::StrCat(found, "; its name took ", HumanDuration(facts.resolving)),
            "check the name servers in /etc/resolv.conf"};
  }
  if (facts.round_trip >= kSlowRoundTrip)
    return {Health::kWarn, "endpoint", found,
            "the network is slow: each all-reduce takes several round trips"};
  return {Health::kOk, "endpoint", found};
}

Finding JudgeService(const EndpointFacts& facts) {
  constexpr char kSubject[] = "service";
  if (!facts.service) return {Health::kWarn, kSubject, absl::StrCat("not asked: ", facts.not_asked)};
  const ServiceFacts& service = *facts.service;
  if (!service.status.ok()) return {Health::kFail, kSubject, std::string(service.status.message())};
  const std::string found = absl::StrCat(
      facts.insecure ? "it accepts every client, without TLS" : "TLS, and the token matches", ", up for ",
      HumanDuration(service.uptime), ", ", Counted(static_cast<int64_t>(service.jobs), "job"));
  if (facts.insecure)
    return {Health::kWarn, kSubject, found, "do not use --insecure on a network that others use"};
  return {Health::kOk, kSubject, found};
}

Finding JudgeClocks(const ServiceFacts& service) {
  constexpr char kSubject[] = "its clock";
  if (!service.tells_time) return {Health::kOk, kSubject, "not known: the service is of an older mtrun"};
  const bool ahead = service.clock_ahead > Duration::zero();
  const Duration apart = ahead ? service.clock_ahead : -service.clock_ahead;
  if (apart <= service.clock_doubt)
    return {Health::kOk, kSubject, absl::StrCat("agrees within ", Milliseconds(service.clock_doubt))};
  const std::string found =
      absl::StrCat("this machine is ", HumanDuration(apart), ahead ? " ahead" : " behind");
  if (apart < kClocksApart) return {Health::kOk, kSubject, found};
  return {Health::kWarn, kSubject,
          absl::StrCat(found, "; the root cause of a failure is found by comparing clocks"),
          "run chrony or systemd-timesyncd on both"};
}

Finding JudgeMtu(const EndpointFacts& facts) {
  constexpr char kSubject[] = "path MTU";
  const PathMtu& mtu = facts.mtu;
  if (mtu.bytes == 0) return {Health::kOk, kSubject, "not known"};
  const std::string bytes = absl::StrCat(mtu.bytes, " bytes");
  if (mtu.proof == MtuProof::kLost) {
    return {Health::kFail, kSubject, absl::StrCat("packets of ", bytes, " get lost, small ones arrive"),
            absl::StrCat("give ", facts.interface.empty() ? "the interface" : facts.interface,
                         " a smaller MTU (ip link set mtu 1400), or let ICMP through")};
  }
  std::string found = mtu.proof == MtuProof::kArrives
                          ? absl::StrCat(bytes, ", and packets of that size arrive")
                          : absl::StrCat(bytes, " as far as known: its host does not answer probes");
  if (facts.interface_mtu > mtu.bytes) {
    return {Health::kWarn, kSubject, absl::StrCat(found, "; ", facts.interface, " has ", facts.interface_mtu),
            "give it that MTU too, or let every switch on the way pass jumbo frames"};
  }
  return {Health::kOk, kSubject, found};
}

/// Measures one connection: several may be faster.
Finding JudgeBandwidth(const ServiceFacts& service) {
  constexpr char kSubject[] = "bandwidth";
  if (!service.throughput.ok()) {
    const bool older = absl::IsUnimplemented(service.throughput.status());
    return {older ? Health::kOk : Health::kWarn, kSubject,
            absl::StrCat("not measured: ", service.throughput.status().message())};
  }
  const auto& [bytes, took] = *service.throughput;
  const double bits_per_second = 8 * static_cast<double>(bytes) / std::max(ToSeconds(took), 1e-9);
  const bool many = bits_per_second >= 1e9;
  const std::string found = absl::StrFormat("at least %.3g %s to the service, by one connection",
                                            bits_per_second / (many ? 1e9 : 1e6), many ? "Gbit/s" : "Mbit/s");
  if (bits_per_second >= kSlowBitsPerSecond) return {Health::kOk, kSubject, found};
  return {Health::kWarn, kSubject, found,
          "check the link's speed (ethtool), or name a faster interface (--local_addr)"};
}

}  // namespace

Findings JudgeEndpoint(const EndpointFacts& facts) {
  if (facts.answering.empty()) return {JudgeSilence(facts)};
  Findings findings = {JudgeReach(facts), JudgeService(facts)};
  if (facts.service && facts.service->status.ok()) findings.push_back(JudgeClocks(*facts.service));
  findings.push_back(JudgeMtu(facts));
  if (facts.service && facts.service->status.ok()) findings.push_back(JudgeBandwidth(*facts.service));
  return findings;
}

}  // namespace mtrun::launcher
