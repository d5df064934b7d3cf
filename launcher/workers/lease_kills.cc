#include "launcher/workers/lease_kills.h"

#include <errno.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>

#include "base/posix.h"

namespace mtrun::launcher {

struct LeaseKills::Pids {
  std::atomic<uint64_t> added = 0;
  std::array<std::atomic<pid_t>, kMost> pids = {};
};

void LeaseKills::Unmap::operator()(Pids* pids) const { munmap(pids, sizeof *pids); }

absl::StatusOr<LeaseKills> LeaseKills::Make() {
  static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free,
                "a lock would be another process's");
  void* memory = mmap(nullptr, sizeof(Pids), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, "share memory with the guardian");
  LeaseKills kills;
  kills.pids_.reset(new (memory) Pids);
  return kills;
}

void LeaseKills::Add(pid_t pid) const {
  if (pids_) pids_->pids[pids_->added++ % kMost] = pid;
}

bool LeaseKills::Take(pid_t pid) const {
  if (!pids_ || pid <= 0) return false;
  bool found = false;
  for (std::atomic<pid_t>& each : pids_->pids) {
    pid_t expected = pid;
    found = each.compare_exchange_strong(expected, 0) || found;
  }
  return found;
}

void LeaseKills::Forget() const {
  if (!pids_) return;
  for (std::atomic<pid_t>& each : pids_->pids) each = 0;
}

}  // namespace mtrun::launcher
