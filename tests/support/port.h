// TCP ports for programs that must know theirs before they start.
#pragma once

#include <sys/types.h>

namespace mtrun::support {

/// Returns a port that no other test takes before this process ends: a locked file reserves it, it is free on
/// all addresses now, and the kernel does not assign it as an ephemeral port (it is outside
/// net.ipv4.ip_local_port_range). Ends the process if there is none. Thread-safe.
int FreePort();

/// Returns how many listening TCP sockets a process has; 0 if it is gone.
int ListeningSockets(pid_t pid);

}  // namespace mtrun::support
