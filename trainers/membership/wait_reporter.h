// Reports to the agent once a second that this worker waits for others, so that a hanging one is found.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/worker_channel.h"

namespace mtrun::trainers {

/// Computes the wait that a worker reports. While its node's lease is over, all workers wait for a service:
/// none hangs and no group has broken. The wait is then one second, and that time is not counted later. A
/// value.
class CountedWait {
 public:
  Duration Count(Duration waited, bool lease_over, TimePoint now);

 private:
  std::optional<TimePoint> over_at_;  // when the lease was last seen to be over
};

class WaitReporter {
 public:
  /// Returns how long the training thread has been waiting for others; zero if it is not.
  using Waited = std::function<Duration()>;

  /// Calls `send` and `lease_over` on a thread of its own. `lease_over` may be null: no lease.
  explicit WaitReporter(std::function<void(const channel::Waiting&)> send,
                        std::function<bool()> lease_over = nullptr);
  ~WaitReporter();

  /// Uses `waited` for `generation` from now on; null: there is nothing to wait for. After this returns, the
  /// previous function is not running and is never called again.
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
