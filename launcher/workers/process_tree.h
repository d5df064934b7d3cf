// Who descends from whom, read from /proc. A snapshot: processes come and go while it is taken, so callers
// repeat until nothing is left.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

namespace mtrun::launcher {

struct ProcessInfo {
  pid_t pid = 0, parent = 0, group = 0;
  char state = '?';  // 'Z': ended, not yet reaped
};

/// All processes that this one may see.
std::vector<ProcessInfo> ListProcesses();
/// Children, their children and so on of `root`, without `root`; parents before children.
std::vector<ProcessInfo> DescendantsOf(pid_t root, const std::vector<ProcessInfo>& processes);
/// True while a process of the group is more than a zombie.
bool GroupIsAlive(pid_t group, const std::vector<ProcessInfo>& processes);
/// Sends SIGKILL to every descendant of `root` (not to itself); the number that was still alive. `before`
/// hears of each first. `spared` is left out, not its descendants.
int KillDescendants(pid_t root, const std::function<void(const ProcessInfo&)>& before = {},
                    pid_t spared = -1);

}  // namespace mtrun::launcher
