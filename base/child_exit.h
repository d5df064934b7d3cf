// Notices that a process has exited.
#pragma once

#include <sys/types.h>

#include "base/clock.h"
#include "base/posix.h"

namespace mtrun {

/// Returns a descriptor (pidfd) that is readable after the process has exited; invalid before Linux 5.3.
UniqueFd WatchExit(pid_t pid);

/// Blocks until this process's child has exited and can be reaped, or was reaped by another thread. Returns
/// false after `timeout`.
bool AwaitExit(pid_t child, Duration timeout);

}  // namespace mtrun
