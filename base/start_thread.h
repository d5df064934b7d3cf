// Threads where the system may have none left: std::thread throws then, which would end a program that can do
// without for a while.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace mtrun {

/// Runs `run` on a thread of its own; false, and nothing has happened, where the system has none left.
/// REQUIRES: `thread` is joined, or was never started.
template <typename Run>
bool StartThread(std::thread* thread, Run&& run) {
  try {
    *thread = std::thread(std::forward<Run>(run));
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

}  // namespace mtrun
