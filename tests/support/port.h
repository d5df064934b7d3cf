// TCP ports for programs that must be told theirs before they start.
#pragma once

#include <sys/types.h>

namespace mtrun::support {

/// A port that no other test takes before this process ends: a locked file stands for it, it is free on all
/// addresses now, and the kernel gives it to nobody who asks for any port (it lies outside of
/// net.ipv4.ip_local_port_range). Ends the process when there is none. Thread-safe.
int FreePort();

/// How many TCP sockets a process has that listen; none when it is gone.
int ListeningSockets(pid_t pid);

}  // namespace mtrun::support
