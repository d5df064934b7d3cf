// The process tree, a snapshot of /proc. Processes start and exit during the scan, so callers repeat it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

namespace mtrun::launcher {

struct ProcessInfo {
  pid_t pid = 0, parent = 0, group = 0;
  char state = '?';  // 'Z': exited but not reaped
};

/// Returns all processes that are visible to this one.
std::vector<ProcessInfo> ListProcesses();
/// Returns all descendants of `root`, without `root`; parents come before children.
std::vector<ProcessInfo> DescendantsOf(pid_t root, const std::vector<ProcessInfo>& processes);
/// Returns true if a process of the group is alive, not just a zombie.
bool GroupIsAlive(pid_t group, const std::vector<ProcessInfo>& processes);
/// Sends SIGKILL to every descendant of `root`, but not to `root`; returns how many were still alive. Calls
/// `before` for each first. Skips `spared`, but not its descendants.
int KillDescendants(pid_t root, const std::function<void(const ProcessInfo&)>& before = {},
                    pid_t spared = -1);

}  // namespace mtrun::launcher
