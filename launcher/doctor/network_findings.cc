#include "launcher/doctor/network_findings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace mtrun::launcher {
namespace {

constexpr int kFewPorts = 1000;
constexpr Duration kSlowResolving = std::chrono::seconds(1);
constexpr Duration kWrongClock = std::chrono::seconds(1);

Finding JudgeRange(const PortFacts& ports) {
  const int size = ports.range.size();
  const std::string found =
      absl::StrCat(ports.free_in_range, " of ", size, " are free in ", ToText(ports.range));
  if (ports.free_in_range == 0) return {Health::kFail, "--port_range", found, "give another range"};
  // mtrun takes two, one more for the workers, and one for each of them.
  if (ports.free_in_range < std::min(size, 16))
    return {Health::kWarn, "--port_range", found, "give a larger one"};
  return {Health::kOk, "--port_range", found};
}

Finding JudgeListening(const PortFacts& ports) {
  constexpr char kSubject[] = "ports", kWiden[] = "widen net.ipv4.ip_local_port_range";
  if (!ports.free_error.empty()) return {Health::kFail, kSubject, ports.free_error, kWiden};
  const int given_out = ports.high - ports.low + 1;
  const std::string kernels =
      absl::StrCat("the kernel gives out ", given_out, " (", ports.low, "-", ports.high, ")");
  if (ports.low > 0 && given_out < kFewPorts) return {Health::kWarn, kSubject, kernels, kWiden};
  if (!ports.endpoint_error.empty()) {
    return {Health::kWarn, kSubject, ports.endpoint_error,
            "if no mtrun hosts the job there already, give another one: --rdzv_endpoint HOST:PORT"};
  }
  std::string found = ports.endpoint_port > 0 ? absl::StrCat(ports.endpoint_port, " is free") : "";
  if (ports.low > 0) absl::StrAppend(&found, found.empty() ? "" : "; ", kernels);
  return {Health::kOk, kSubject, found};
}

}  // namespace

Findings JudgePorts(const PortFacts& ports) {
  Findings findings = {JudgeListening(ports)};
  if (!ports.range.any()) findings.push_back(JudgeRange(ports));
  return findings;
}

Finding JudgeClock(const ClockFacts& clock) {
  if (!clock.known) return {Health::kOk, "clock", "the kernel does not say whether it is synchronised"};
  if (clock.synchronised && clock.most_wrong < kWrongClock)
    return {Health::kOk, "clock", absl::StrCat("synchronised, to ", HumanDuration(clock.most_wrong))};
  return {Health::kWarn, "clock",
          clock.synchronised ? absl::StrCat("it may be off by ", HumanDuration(clock.most_wrong))
                             : "not synchronised; nodes' logs and the root cause of a failure depend on it",
          "on several nodes run chrony or systemd-timesyncd (in a container: on its host)"};
}

Finding JudgeToken(const TokenFacts& token, bool several) {
  constexpr char kSubject[] = "token";
  if (token.insecure) return {Health::kWarn, kSubject, "none is used (--insecure)", "remove --insecure"};
  if (token.status.ok()) return {Health::kOk, kSubject, absl::StrCat("from ", token.from)};
  const bool none = absl::IsNotFound(token.status);
  if (!none || token.given) return {Health::kFail, kSubject, std::string(token.status.message())};
  if (!token.make_error.empty()) {
    return {Health::kFail, kSubject, absl::StrCat("none, and mtrun cannot create one: ", token.make_error),
            "set HOME or MTRUN_TOKEN, or give --token_file FILE"};
  }
  if (!several)
    return {Health::kOk, kSubject, absl::StrCat("none yet; mtrun creates ", token.from, " at its first use")};
  return {Health::kWarn, kSubject, "none here",
          "copy ~/.mtrun/token from another node (mode 0600), or set MTRUN_TOKEN, the same on every node"};
}

Finding JudgeName(const NameFacts& name, bool several) {
  constexpr char kSubject[] = "name";
  const Health bad = several ? Health::kWarn : Health::kOk;
  const std::string mend = several
                               ? "mtrun names the interface for Gloo; programs that use the name themselves "
                                 "need an entry in DNS or /etc/hosts"
                               : "";
  if (name.addresses.empty())
    return {bad, kSubject, absl::StrCat("this machine's own, \"", name.own, "\", does not resolve"), mend};
  const std::string found = absl::StrCat(name.own, " is ", absl::StrJoin(name.addresses, ", "));
  const bool here_alone = std::all_of(name.addresses.begin(), name.addresses.end(),
                                      [](const std::string& address) { return IsLoopback(address); });
  if (here_alone) return {bad, kSubject, absl::StrCat(found, ", which no other machine can reach"), mend};
  if (name.took >= kSlowResolving) {
    return {Health::kWarn, kSubject, absl::StrCat(found, ", after ", HumanDuration(name.took)),
            "check the name servers in /etc/resolv.conf"};
  }
  return {Health::kOk, kSubject, found};
}

Finding JudgeAddress(const NodeFacts& node) {
  if (!node.address.ok())
    return {Health::kFail, "--local_addr",
            std::string(absl::StripPrefix(node.address.status().message(), "--local_addr: "))};
  if (!node.local_addr.empty()) {
    const std::string interface = InterfaceOf(*node.address, node.interfaces);
    const std::string on = interface.empty() || interface == node.local_addr ? "" : " on ";
    return {Health::kOk, "--local_addr",
            absl::StrCat(node.local_addr, " is ", *node.address, on, on.empty() ? "" : interface)};
  }
  const bool reachable = std::any_of(node.interfaces.begin(), node.interfaces.end(),
                                     [](const InterfaceAddress& each) { return each.IsForPeers(); });
  const std::string found = DescribeInterfaces(node.interfaces);
  if (reachable || !node.several) return {Health::kOk, "interfaces", found};
  return {Health::kFail, "interfaces", absl::StrCat(found, ": no address that another machine can reach"),
          "set an interface up"};
}

Findings JudgeNode(const NodeFacts& node) {
  Findings findings = JudgePorts(node.ports);
  findings.push_back(JudgeClock(node.clock));
  findings.push_back(JudgeToken(node.token, node.several));
  findings.push_back(JudgeName(node.name, node.several));
  findings.push_back(JudgeAddress(node));
  return findings;
}

}  // namespace mtrun::launcher
