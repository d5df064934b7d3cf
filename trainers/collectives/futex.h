// Sleeps on a word of shared memory (futex(2)), even if it is mapped read-only. Any thread, any process.
#pragma once

#include <atomic>
#include <cstdint>

namespace mtrun::collectives {

/// Calls of a test before each sleep and after each wake-up, for wake-ups that come too early. Null: none.
struct FutexHooks {
  std::atomic<void (*)()> before_wait = nullptr, after_wake = nullptr;
};
inline FutexHooks futex_hooks;

/// Sleeps until a FutexWake of the same word. Returns at once if `word` is not `expected`. It may also return
/// spuriously, so callers must check again.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected);

/// Wakes all threads that sleep on `word`, in all processes that map it.
void FutexWake(const std::atomic<uint32_t>& word);

}  // namespace mtrun::collectives
