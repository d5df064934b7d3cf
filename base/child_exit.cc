#include "base/child_exit.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <thread>

namespace mtrun {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(1);  // interval of checks without a pidfd

bool HasExited(pid_t child) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

}  // namespace

UniqueFd WatchExit(pid_t pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

bool AwaitExit(pid_t child, Duration timeout) {
  const TimePoint deadline = MonotonicNow() + timeout;
  const UniqueFd watch = WatchExit(child);
  while (!HasExited(child)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicNow());
    if (left.count() <= 0) return false;
    pollfd ended = {watch.get(), POLLIN, 0};
    if (watch.valid())
      poll(&ended, 1, static_cast<int>(std::min<int64_t>(left.count(), INT_MAX)));
    else
      std::this_thread::sleep_for(kLook);
  }
  return true;
}

}  // namespace mtrun
