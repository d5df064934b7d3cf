// Threads that work on jobs of many parts, the oldest job first; free of LibTorch. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace mtrun::trainers {

class ReadPool {
 public:
  struct Job {
    int64_t parts = 0;                         // may be done in any order, at the same time
    std::function<void()> announce = nullptr;  // before any part, once: tells the kernel what will be read
    std::function<absl::Status(int64_t part)> work = nullptr;
  };
  /// A job that was added.
  class Ticket;
  using TicketPtr = std::shared_ptr<Ticket>;

  explicit ReadPool(int threads);
  /// Jobs that were added are dropped; parts that have begun are finished.
  ~ReadPool();

  /// Behind all others, or with `first` before them.
  TicketPtr Add(Job job, bool first = false);
  /// Until all parts are done; the first error in their order. What a dropped job says is kCancelled.
  absl::Status Wait(const TicketPtr& ticket);
  /// No part of it begins any more.
  void Drop(const TicketPtr& ticket);

 private:
  void Run();
  bool Announce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WorkOnOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  Condition changed_;                                   // jobs were added, a job was finished, or the end
  std::deque<TicketPtr> jobs_ ABSL_GUARDED_BY(mutex_);  // with parts that have not begun
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace mtrun::trainers
