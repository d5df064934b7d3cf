// Several machines on one: a network namespace and a host name each, joined by a bridge in a namespace of its
// own. They live as long as the object: nothing has a name outside of it, so nothing is left even when the
// test is killed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/support/program.h"

namespace mtrun::support {

/// Who is no user of this machine, as far as files and processes are concerned.
inline constexpr int kNobody = 65534;
/// `argv` wrapped so that it runs as kNobody, with none of root's rights, and finds the system's programs
/// alone: this user's may be closed to others. The process is the program's own. Only root can become
/// somebody else, so tests skip ("needs root") where this is not root.
std::vector<std::string> AsNobody(const std::vector<std::string>& argv);

class Network {
 public:
  enum class Family { kFour, kSixAlone };
  /// As root, or in a user namespace of its own. An error says why neither is allowed here. kSixAlone: no
  /// node has any IPv4 address, not even on loopback.
  static absl::StatusOr<std::unique_ptr<Network>> Make(int nodes, Family family = Family::kFour);

  /// 10.78.0.1 and so on, or fd78::1; host names node0, node1, ...
  std::string Address(int node) const;
  /// `argv` wrapped so that it runs on that node; the process is the program's own.
  std::vector<std::string> On(int node, const std::vector<std::string>& argv) const;
  /// The same as another user of that machine; see AsNobody.
  std::vector<std::string> OnAsNobody(int node, const std::vector<std::string>& argv) const {
    return On(node, AsNobody(argv));
  }
  /// Takes the cable of the node out of the switch or puts it back.
  absl::Status SetLink(int node, bool up) const;
  /// Takes the uplink of these nodes away or puts it back: without it they see each other and nobody else.
  absl::Status SetUplink(const std::vector<int>& nodes, bool up) const;

 private:
  Network(bool own_user, Family family) : own_user_(own_user), family_(family) {}
  absl::Status Wire(int nodes) const;
  /// A shell script on that node (the switch is the last one).
  absl::Status Run(int node, absl::string_view script) const;
  int hub() const { return static_cast<int>(holders_.size()) - 1; }

  const bool own_user_;  // whether there is a user namespace around all
  const Family family_;
  std::vector<std::unique_ptr<Program>> holders_;
};

}  // namespace mtrun::support
