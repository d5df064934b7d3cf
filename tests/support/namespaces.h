// Two simulated machines: network namespaces joined by a veth pair, each with a host name. Nothing has an
// external name, so nothing outlives the object, even if the test is killed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/program.h"

namespace mtrun::support {

class TwoNodes {
 public:
  /// Works as root or in a new user namespace. The error tells why neither is allowed here.
  static absl::StatusOr<std::unique_ptr<TwoNodes>> Make();

  /// 10.77.0.1 and 10.77.0.2; host names node0 and node1.
  std::string Address(int node) const;
  /// Returns `argv` wrapped so that it runs on that node; the process is the program's own.
  std::vector<std::string> On(int node, const std::vector<std::string>& argv) const;
  /// Sets the node's link down or up.
  absl::Status SetLink(int node, bool up) const;

 private:
  explicit TwoNodes(bool own_user) : own_user_(own_user) {}
  absl::Status Run(int node, const std::vector<std::string>& argv) const;

  const bool own_user_;  // whether there is a user namespace around both
  std::unique_ptr<Program> holders_[2];
};

}  // namespace mtrun::support
