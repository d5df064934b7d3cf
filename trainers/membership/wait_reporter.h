// Tells the agent, once a second, that this worker waits for others, so that it can tell who hangs.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker_channel.h"

namespace mtrun::trainers {

/// How long a worker says that it waits. While the lease of its node is over all workers wait for a service,
/// whatever they do: nobody hangs and no group has broken, so it is a second, and what passed meanwhile does
/// not count later. A value.
class CountedWait {
 public:
  Duration Count(Duration waited, bool lease_over, TimePoint now);

 private:
  std::optional<TimePoint> over_at_;  // the last time that the lease was
};

class WaitReporter {
 public:
  /// How long the training thread has waited for others so far; zero when it does not.
  using Waited = std::function<Duration()>;

  /// `send` and `lease_over` (null: there is no lease) are called on a thread of its own.
  explicit WaitReporter(std::function<void(const channel::Waiting&)> send,
                        std::function<bool()> lease_over = nullptr);
  ~WaitReporter();

  /// From here on `waited` speaks for `generation`. When this returns the previous one is not running and
  /// never will. Null: there is nothing to wait for.
  void Watch(const channel::Generation& generation, Waited waited);

 private:
  void Run();

  const std::function<void(const channel::Waiting&)> send_;
  const std::function<bool()> lease_over_;
  Mutex mutex_;
  Condition stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  channel::Generation generation_ ABSL_GUARDED_BY(mutex_);
  Waited waited_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace mtrun::trainers
