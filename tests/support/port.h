// TCP ports for programs that must be told theirs before they start.
#pragma once

namespace mtrun::support {

/// A port that no other test takes before this process ends: a locked file stands for it, it is free on all
/// addresses now, and the kernel gives it to nobody who asks for any port (it lies outside of
/// net.ipv4.ip_local_port_range). Ends the process when there is none. Thread-safe.
int FreePort();

}  // namespace mtrun::support
