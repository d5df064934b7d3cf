// Tells the agent, once a second, that this worker waits for others, so that it can tell who hangs.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker_channel.h"

namespace mtrun::trainers {

class WaitReporter {
 public:
  /// How long the training thread has waited for others so far; zero when it does not.
  using Waited = std::function<Duration()>;

  /// `send` is called on a thread of its own.
  explicit WaitReporter(std::function<void(const channel::Waiting&)> send);
  ~WaitReporter();

  /// From here on `waited` speaks for `generation`. When this returns the previous one is not running and
  /// never will. Null: there is nothing to wait for.
  void Watch(const channel::Generation& generation, Waited waited);

 private:
  void Run();

  const std::function<void(const channel::Waiting&)> send_;
  Mutex mutex_;
  Condition stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  channel::Generation generation_ ABSL_GUARDED_BY(mutex_);
  Waited waited_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace mtrun::trainers
