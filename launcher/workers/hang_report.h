// The kernel's view of a stalled process, for messages.
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::launcher {

/// Returns "pid 123 is stopped (T), waits in do_signal_stop; kernel stack: a < b < c": the main thread's
/// state, wait channel and kernel stack, if `root`/proc (`root` is "" outside tests) shows them to this user.
std::string DescribeHang(const std::string& root, int64_t pid);

}  // namespace mtrun::launcher
