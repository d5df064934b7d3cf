// Runs a group's operations one after the other in the order in which they were submitted: on a thread of its
// own, or on the thread that waits for one, whichever comes first (a caller that waits at once saves two
// context switches).
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::collectives {

/// One submitted operation. Thread-safe; may outlive its queue, which then has completed it.
class Work {
 public:
  virtual ~Work() = default;
  /// Blocks until the operation is done and returns how it ended; runs it, and those before it, where nobody
  /// else does.
  virtual absl::Status Wait() = 0;
  virtual bool done() const = 0;
  /// How it ended; OK while it is not done.
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
    kNow,     // on the queue's thread, unless somebody who waits is faster
    kOnWait,  // the caller will Wait at once: does not wake the queue's thread, which would only be in its
              // way
  };
  /// `on_done`, if any, is called once, on the thread that ran the operation, without locks, before Wait
  /// returns.
  std::shared_ptr<Work> Submit(Operation operation, OnDone on_done = nullptr, Start start = Start::kNow);

  /// Operations that are not done. Any thread.
  size_t pending() const;
  /// How long the running operation has taken so far, zero when none runs. Any thread.
  Duration running_for() const;

 private:
  struct State;
  struct Item;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

/// A Work that is already done, for what needs no queue.
std::shared_ptr<Work> CompletedWork(absl::Status status);

}  // namespace mtrun::collectives
