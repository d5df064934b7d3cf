// Threads that work on jobs of many parts, the oldest job first. Independent of LibTorch. Thread-safe.
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
    int64_t parts = 0;                         // done in any order, concurrently
    std::function<void()> announce = nullptr;  // called once, first; tells the kernel what will be read
    std::function<absl::Status(int64_t part)> work = nullptr;
  };
  /// An added job.
  class Ticket;
  using TicketPtr = std::shared_ptr<Ticket>;

  explicit ReadPool(int threads);
  /// Drops added jobs, and finishes parts that have begun.
  ~ReadPool();

  /// Adds a job after all others, or before them if `first`.
  TicketPtr Add(Job job, bool first = false);
  /// Blocks until all parts are done. Returns the first part's error, or kCancelled if the job was dropped.
  absl::Status Wait(const TicketPtr& ticket);
  /// Prevents further parts of a job from starting.
  void Drop(const TicketPtr& ticket);

 private:
  void Run();
  bool Announce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WorkOnOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  Condition changed_;  // jobs were added, a job was finished, or the pool is closing
  std::deque<TicketPtr> jobs_ ABSL_GUARDED_BY(mutex_);  // with parts that have not begun
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace mtrun::trainers
