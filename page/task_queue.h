// Runs blocking calls off the server's thread: a few at once, with a bounded queue.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace mtrun::page {

/// Thread-safe.
class TaskQueue {
 public:
  static constexpr size_t kThreads = 2, kMost = 16;

  TaskQueue();
  /// Finishes running tasks and drops waiting ones.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;

  /// Queues a task; returns false if the queue is full.
  bool Add(std::function<void()> task);

 private:
  void Run();

  Mutex mu_;
  Condition changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace mtrun::page
