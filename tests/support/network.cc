#include "tests/support/network.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::support {

std::vector<std::string> AsNobody(const std::vector<std::string>& argv) {
  const std::string id = absl::StrCat(kNobody);
  return Joined({"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all", "env",
                 "PATH=/usr/local/bin:/usr/bin:/bin"},
                argv);
}

absl::StatusOr<std::unique_ptr<Network>> Network::Make(int nodes, Family family) {
  std::unique_ptr<Network> network(new Network(geteuid() != 0, family));
  for (int node = 0; node <= nodes; ++node) {
    std::vector<std::string> enter = {"unshare", "--net", "--uts"};
    if (network->own_user_ && node == 0) enter = {"unshare", "--user", "--map-root-user", "--net", "--uts"};
    if (network->own_user_ && node > 0) {
      enter = {"nsenter",
               "--target",
               absl::StrCat(network->holders_[0]->pid()),
               "--user",
               "--preserve-credentials",
               "unshare",
               "--net",
               "--uts"};
    }
    const std::string script =
        absl::StrCat("hostname node", node, " && ip link set lo up && ",
                     family == Family::kFour ? "" : "ip addr del 127.0.0.1/8 dev lo && ",
                     "echo ready && exec sleep 1000000");
    network->holders_.push_back(std::make_unique<Program>(Joined(enter, {"sh", "-c", script})));
    if (!network->holders_.back()->WaitForLine("ready")) {
      return absl::PermissionDeniedError(
          absl::StrCat("no network namespaces here: ", network->holders_.back()->Text()));
    }
  }
  MT_RETURN_IF_ERROR(network->Wire(nodes));
  return network;
}

absl::Status Network::Wire(int nodes) const {
  std::string script =
      "for name in hub rack; do ip link add $name type bridge && ip link set $name up || exit; done";
  for (int node = 0; node < nodes; ++node) {
    absl::StrAppend(&script, " && ip link add port", node, " type veth peer name eth0 netns ",
                    holders_[static_cast<size_t>(node)]->pid(), " && ip link set port", node,
                    " master hub && ip link set port", node, " up");
  }
  MT_RETURN_IF_ERROR(Run(nodes, script));
  for (int node = 0; node < nodes; ++node) {
    MT_RETURN_IF_ERROR(
        Run(node, absl::StrCat("ip link set eth0 up && ip addr add ", Address(node),
                               family_ == Family::kFour ? "/24 dev eth0" : "/64 dev eth0 nodad")));
  }
  return absl::OkStatus();
}

std::string Network::Address(int node) const {
  return absl::StrCat(family_ == Family::kFour ? "10.78.0." : "fd78::", node + 1);
}

std::vector<std::string> Network::On(int node, const std::vector<std::string>& argv) const {
  std::vector<std::string> enter = {
      "nsenter", "--target", absl::StrCat(holders_[static_cast<size_t>(node)]->pid()), "--net", "--uts"};
  if (own_user_) enter = Joined(enter, {"--user", "--preserve-credentials"});
  return Joined(enter, argv);
}

absl::Status Network::SetLink(int node, bool up) const {
  return Run(hub(), absl::StrCat("ip link set port", node, up ? " up" : " down"));
}

absl::Status Network::SetLoss(int node, int percent) const {
  std::string script = "{ nft delete table inet loss 2>/dev/null || true; }";
  for (const char* hook : {"input", "output"}) {
    if (percent == 0) break;
    absl::StrAppend(&script, " && nft add table inet loss && nft add chain inet loss ", hook,
                    " '{ type filter hook ", hook, " priority 0; }' && nft add rule inet loss ", hook, " ",
                    hook[0] == 'i' ? "iifname" : "oifname", " eth0 numgen random mod 100 '<' ", percent,
                    " drop");
  }
  return Run(node, script);
}

absl::Status Network::SetUplink(const std::vector<int>& nodes, bool up) const {
  std::string script = "true";
  for (const int node : nodes)
    absl::StrAppend(&script, " && ip link set port", node, " master ", up ? "hub" : "rack");
  return Run(hub(), script);
}

absl::Status Network::Run(int node, absl::string_view script) const {
  Program program(On(node, {"sh", "-c", std::string(script)}));
  if (program.Wait() == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(script, ": ", program.Text()));
}

}  // namespace mtrun::support
