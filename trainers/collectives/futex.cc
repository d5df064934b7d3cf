#include "trainers/collectives/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace mtrun::collectives {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

// These futexes are shared (no FUTEX_PRIVATE_FLAG): the kernel's key is the file and the offset, so that a
// reader's read-only mapping and the writer's own match.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected) {
  if (const auto hook = futex_hooks.before_wait.load()) hook();
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

void FutexWake(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  if (const auto hook = futex_hooks.after_wake.load()) hook();
}

}  // namespace mtrun::collectives
