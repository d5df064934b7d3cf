// The control groups that limit this process. Files are read below `root`, which tests replace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtrun {

struct ControlGroup {
  std::string folder;  // contains the controller's files
  bool version2 = false;
  bool operator==(const ControlGroup&) const = default;
};

/// Returns this process's group and its ancestors, as far as `controller` ("cpu", "pids") manages them. Both
/// versions of control groups can be present. Inside a container the container's own group is the topmost.
std::vector<ControlGroup> ControlGroupsOf(std::string_view controller, const std::string& root = "");

}  // namespace mtrun
