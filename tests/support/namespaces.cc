#include "tests/support/namespaces.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace mtrun::support {
namespace {

/// Prints its host name, then waits for its end.
std::vector<std::string> Holder(int node) {
  return {"sh", "-c",
          absl::StrCat("hostname node", node, " && ip link set lo up && echo ready && exec sleep 1000000")};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TwoNodes>> TwoNodes::Make() {
  std::unique_ptr<TwoNodes> nodes(new TwoNodes(geteuid() != 0));
  for (const int node : {0, 1}) {
    std::vector<std::string> enter = {"unshare", "--net", "--uts"};
    if (nodes->own_user_ && node == 0) enter = {"unshare", "--user", "--map-root-user", "--net", "--uts"};
    if (nodes->own_user_ && node == 1) {
      const std::string first = absl::StrCat(nodes->holders_[0]->pid());
      enter = {"nsenter", "--target", first, "--user", "--preserve-credentials", "unshare", "--net", "--uts"};
    }
    nodes->holders_[node] = std::make_unique<Program>(Joined(enter, Holder(node)));
    if (!nodes->holders_[node]->WaitForLine("ready")) {
      return absl::PermissionDeniedError(
          absl::StrCat("no network namespaces here: ", nodes->holders_[node]->Text()));
    }
  }
  const std::string other = absl::StrCat(nodes->holders_[1]->pid());
  MT_RETURN_IF_ERROR(nodes->Run(0, {"ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"}));
  MT_RETURN_IF_ERROR(nodes->Run(0, {"ip", "link", "set", "veth1", "netns", other}));
  for (const int node : {0, 1}) {
    const std::string device = absl::StrCat("veth", node);
    MT_RETURN_IF_ERROR(nodes->Run(node, {"ip", "addr", "add", nodes->Address(node) + "/24", "dev", device}));
    MT_RETURN_IF_ERROR(nodes->SetLink(node, true));
  }
  return nodes;
}

std::string TwoNodes::Address(int node) const { return absl::StrCat("10.77.0.", node + 1); }

std::vector<std::string> TwoNodes::On(int node, const std::vector<std::string>& argv) const {
  std::vector<std::string> enter = {"nsenter", "--target", absl::StrCat(holders_[node]->pid()), "--net",
                                    "--uts"};
  if (own_user_) enter = Joined(enter, {"--user", "--preserve-credentials"});
  return Joined(enter, argv);
}

absl::Status TwoNodes::SetLink(int node, bool up) const {
  return Run(node, {"ip", "link", "set", absl::StrCat("veth", node), up ? "up" : "down"});
}

absl::Status TwoNodes::Run(int node, const std::vector<std::string>& argv) const {
  Program program(On(node, argv));
  if (program.Wait() == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(absl::StrJoin(argv, " "), ": ", program.Text()));
}

}  // namespace mtrun::support
