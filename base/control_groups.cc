#include "base/control_groups.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/string_view.h"

namespace mtrun {

std::vector<ControlGroup> ControlGroupsOf(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> found;
  const std::string groups = ReadFile(root + "/proc/self/cgroup").value_or("");
  for (const absl::string_view line : absl::StrSplit(groups, '\n', absl::SkipEmpty())) {
    // "0::/a/b" (version 2) or "4:cpu,cpuacct:/a/b"
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool version2 = fields[0] == "0" && fields[1].empty();
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (!version2 && std::find(controllers.begin(), controllers.end(), controller) == controllers.end())
      continue;
    // A container's own group is mounted at the top, although the path is the host's.
    const std::string mount =
        absl::StrCat(root, version2 ? "/sys/fs/cgroup" : absl::StrCat("/sys/fs/cgroup/", View(controller)));
    for (std::string path = fields[2]; absl::StartsWith(path, "/") && path != "/";
         path.resize(path.rfind('/')))
      found.push_back({mount + path, version2});
    found.push_back({mount, version2});
  }
  return found;
}

}  // namespace mtrun
