// Threads for importers: a loop over chunks, and a bounded queue between one producer and many workers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
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

/// Push blocks while the queue has `capacity` items, Pop while it is empty. After Close, Push returns false
/// and Pop returns the remaining items, then nullopt.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  bool Push(T item) {
    const MutexLock lock(mutex_);
    while (!closed_ && items_.size() >= capacity_) room_.Wait(mutex_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    filled_.NotifyAll();
    return true;
  }

  std::optional<T> Pop() {
    const MutexLock lock(mutex_);
    while (!closed_ && items_.empty()) filled_.Wait(mutex_);
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    room_.NotifyAll();
    return item;
  }

  void Close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    room_.NotifyAll();
    filled_.NotifyAll();
  }

 private:
  const size_t capacity_;
  Mutex mutex_;
  Condition room_, filled_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace mtrun::datasets
