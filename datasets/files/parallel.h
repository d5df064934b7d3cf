// Threads for importers: a loop over chunks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace mtrun::datasets {

/// Keeps the first error of several threads. Thread-safe.
class FirstError {
 public:
  void Offer(const absl::Status& status) {
    if (status.ok()) return;
    const MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
    failed_ = true;
  }
  bool failed() const { return failed_; }
  absl::Status status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> failed_ = false;
};

/// Calls `work(begin, end)` for the chunks of [0, n) on `threads` threads; stops early on the first error.
inline absl::Status ParallelChunks(int64_t n, int64_t chunk, int threads,
                                   const std::function<absl::Status(int64_t, int64_t)>& work) {
  std::atomic<int64_t> next = 0;
  FirstError error;
  const auto run = [&] {
    for (int64_t begin; !error.failed() && (begin = next.fetch_add(chunk)) < n;) {
      error.Offer(work(begin, std::min(n, begin + chunk)));
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int i = 1; i < threads; ++i) pool.emplace_back(run);
    run();
  }
  return error.status();
}

}  // namespace mtrun::datasets
