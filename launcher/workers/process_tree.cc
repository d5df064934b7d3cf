#include "launcher/workers/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/posix.h"

namespace mtrun::launcher {
namespace {

std::optional<ProcessInfo> ReadStat(const char* pid_text) {
  char path[64], text[512];
  std::snprintf(path, sizeof path, "/proc/%.20s/stat", pid_text);
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  const ssize_t size = read(file.get(), text, sizeof text - 1);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  // pid (name) state parent group. The name can contain blanks and brackets, so parse after the last bracket.
  const char* close_bracket = std::strrchr(text, ')');
  ProcessInfo info;
  info.pid = static_cast<pid_t>(std::atoi(pid_text));
  if (close_bracket == nullptr ||
      std::sscanf(close_bracket + 1, " %c %d %d", &info.state, &info.parent, &info.group) != 3) {
    return std::nullopt;
  }
  return info;
}

}  // namespace

std::vector<ProcessInfo> ListProcesses() {
  std::vector<ProcessInfo> processes;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return processes;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (const auto info = ReadStat(entry->d_name)) processes.push_back(*info);
  }
  closedir(folder);
  return processes;
}

std::vector<ProcessInfo> DescendantsOf(pid_t root, const std::vector<ProcessInfo>& processes) {
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents = {root};
  for (size_t i = 0; i < parents.size(); ++i) {
    for (const ProcessInfo& process : processes) {
      if (process.parent != parents[i] || process.pid == root) continue;
      found.push_back(process);
      parents.push_back(process.pid);
    }
  }
  return found;
}

bool GroupIsAlive(pid_t group, const std::vector<ProcessInfo>& processes) {
  for (const ProcessInfo& process : processes) {
    if (process.group == group && process.state != 'Z' && process.state != 'X') return true;
  }
  return false;
}

int KillDescendants(pid_t root, const std::function<void(const ProcessInfo&)>& before, pid_t spared) {
  int alive = 0;
  for (const ProcessInfo& process : DescendantsOf(root, ListProcesses())) {
    if (process.state == 'Z' || process.state == 'X' || process.pid == spared) continue;
    if (before) before(process);
    if (kill(process.pid, SIGKILL) == 0) ++alive;
  }
  return alive;
}

}  // namespace mtrun::launcher
