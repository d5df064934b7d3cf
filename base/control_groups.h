// The control groups of this process: where limits are that count for it. `root` reads files below it: "" for
// this machine, a folder with proc/ and sys/ in tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtrun {

struct ControlGroup {
  std::string folder;  // with the controller's files
  bool version2 = false;
  bool operator==(const ControlGroup&) const = default;
};

/// Its group and those above it, as far as `controller` ("cpu", "pids") manages them; both versions of
/// control groups may be there. A container's own group is the top one.
std::vector<ControlGroup> ControlGroupsOf(std::string_view controller, const std::string& root = "");

}  // namespace mtrun
