// A barrier for tests of calls that block: it shows that a thread has gone as far as it can by itself.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace mtrun::support {

/// Returns the calling thread's id.
inline pid_t ThreadId() { return static_cast<pid_t>(syscall(SYS_gettid)); }

/// Waits until this thread of the process sleeps in the kernel, or until `done()`. Returns whether it sleeps.
/// REQUIRES: from now on, it sleeps only in the call that is tested.
template <typename Done>
bool AwaitAsleep(pid_t thread, const Done& done) {
  const std::string path = absl::StrCat("/proc/self/task/", thread, "/stat");
  while (!done()) {
    std::string line;
    std::getline(std::ifstream(path), line);
    const size_t name_ends = line.rfind(')');
    if (name_ends != std::string::npos && line.compare(name_ends, 3, ") S") == 0) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace mtrun::support
