// Ends a drained worker's wait for the other workers. A signal or an agent's request does not wake a thread
// that waits for keys or connections, and if the service is lost too, nothing else ends the wait.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::trainers {

class DrainWatch {
 public:
  /// Time in which a wait may still succeed: leaving after a step costs the other workers nothing.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  /// Starts a thread that polls `wants_drain` while this object lives. It calls `give_up`, once, after
  /// `wants_drain` has been true for `timeout`.
  DrainWatch(std::function<bool()> wants_drain, std::function<void()> give_up, Duration timeout = kPatience);
  /// After this returns, `give_up` is not running and is never called again.
  ~DrainWatch();

 private:
  void Run();

  const std::function<bool()> wants_drain_;
  const std::function<void()> give_up_;
  const Duration patience_;
  Mutex mutex_;
  Condition over_changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mtrun::trainers
