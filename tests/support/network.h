// Several simulated machines: a network namespace and a host name each, joined by a bridge in a separate
// namespace. Nothing has an external name, so nothing outlives the object, even if the test is killed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/support/program.h"

namespace mtrun::support {

/// A user without any access to this machine's files and processes.
inline constexpr int kNobody = 65534;
/// Returns `argv` wrapped so that it runs as kNobody, without root's rights, and finds only the system's
/// programs: this user's may be inaccessible to others. The process is the program's own. Only root can
/// change its user, so tests skip ("needs root") if they do not run as root.
std::vector<std::string> AsNobody(const std::vector<std::string>& argv);

class Network {
 public:
  enum class Family { kFour, kSixAlone };
  /// Works as root or in a new user namespace; else the error tells why neither is allowed here. kSixAlone:
  /// no node has any IPv4 address, not even on loopback.
  static absl::StatusOr<std::unique_ptr<Network>> Make(int nodes, Family family = Family::kFour);

  /// 10.78.0.1 and so on, or fd78::1; host names node0, node1, ...
  std::string Address(int node) const;
  /// Returns `argv` wrapped so that it runs on that node; the process is the program's own.
  std::vector<std::string> On(int node, const std::vector<std::string>& argv) const;
  /// Likewise as another user of that machine; see AsNobody.
  std::vector<std::string> OnAsNobody(int node, const std::vector<std::string>& argv) const {
    return On(node, AsNobody(argv));
  }
  /// Disconnects the node's cable from the switch or connects it again.
  absl::Status SetLink(int node, bool up) const;
  /// Drops this percentage of the packets that the node sends, and of those that it receives; 0: none. Needs nft.
  absl::Status SetLoss(int node, int percent) const;
  /// Removes the uplink of these nodes or restores it: without it they reach only each other.
  absl::Status SetUplink(const std::vector<int>& nodes, bool up) const;

 private:
  Network(bool own_user, Family family) : own_user_(own_user), family_(family) {}
  absl::Status Wire(int nodes) const;
  /// Runs a shell script on that node (the switch is the last one).
  absl::Status Run(int node, absl::string_view script) const;
  int hub() const { return static_cast<int>(holders_.size()) - 1; }

  const bool own_user_;  // whether a user namespace surrounds all
  const Family family_;
  std::vector<std::unique_ptr<Program>> holders_;
};

}  // namespace mtrun::support
