// What the kernel knows of a stalled process, for people.
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::launcher {

/// "pid 123 is stopped (T), waits in do_signal_stop; kernel stack: a < b < c": its main thread's state, wait
/// channel and kernel stack as far as `root`/proc ("" in life) shows them to this user.
std::string DescribeHang(const std::string& root, int64_t pid);

}  // namespace mtrun::launcher
