// Sleeping on a word of shared memory (futex(2)), also one that is mapped read-only. Any thread, any process.
#pragma once

#include <atomic>
#include <cstdint>

namespace mtrun::collectives {

/// Sleeps while `word` holds `expected`; returns at a FutexWake of the same word, at once when the value is
/// another, and sometimes for no reason: callers look again.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected);

/// Wakes everybody who sleeps on `word`, in all processes that map it.
void FutexWake(const std::atomic<uint32_t>& word);

}  // namespace mtrun::collectives
