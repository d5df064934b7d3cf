// Runs a group's operations one at a time in the order of submission, on a thread of its own or on one that
// waits, whichever comes first: a caller that waits at once saves two context switches.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::collectives {

/// One submitted operation. Thread-safe. May outlive its queue, which completes it first.
class Work {
 public:
  virtual ~Work() = default;
  /// Blocks until the operation is done, and runs it and those before it unless another thread does. Returns
  /// its status.
  virtual absl::Status Wait() = 0;
  virtual bool done() const = 0;
  /// Returns the operation's status; OK while it is not done.
  virtual absl::Status status() const = 0;
};

class WorkQueue {
 public:
  using Operation = std::function<absl::Status()>;
  using OnDone = std::function<void(const absl::Status&)>;

  WorkQueue();
  /// Waits for the running operation; those that have not begun end with kAborted.
  ~WorkQueue();

  enum class Start {
    kNow,     // on the queue's thread, unless a waiting thread is faster
    kOnWait,  // does not wake the queue's thread, because the caller will Wait at once
  };
  /// Submits an operation. The thread that ran it calls `on_done`, if any, once and without locks, before
  /// Wait returns.
  std::shared_ptr<Work> Submit(Operation operation, OnDone on_done = nullptr, Start start = Start::kNow);

  /// Returns the number of operations that are not done. Any thread.
  size_t pending() const;
  /// Returns how long the running operation has taken so far; zero if none is running. Any thread.
  Duration running_for() const;

 private:
  struct State;
  struct Item;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

/// Returns a Work that is already done, for calls that need no queue.
std::shared_ptr<Work> CompletedWork(absl::Status status);

}  // namespace mtrun::collectives
