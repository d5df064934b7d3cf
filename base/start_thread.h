// Starts threads without exceptions: std::thread throws if the system has none left, which would end a
// program that can work without the thread for a while.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace mtrun {

/// Runs `run` on a new thread. Returns false, without any effect, if the system has no threads left.
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
