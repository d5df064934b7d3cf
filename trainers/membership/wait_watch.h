// Watches a wait for other workers, from a thread of its own. It ends the wait of a drained worker: a signal or
// an agent's request does not wake a thread that waits for keys or connections, and if the service is lost too,
// nothing else ends the wait. It also tells the user what a worker waits for if that takes longer than a moment.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::trainers {

class WaitWatch {
 public:
  /// Time in which a wait may still succeed: leaving after a step costs the other workers nothing.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  /// What becomes of a watch if the system has no thread left: std::system_error, or nothing is watched.
  enum class WithoutThread { kThrow, kUnwatched };

  /// Starts a thread that polls `condition` while this object lives. It calls `act`, once, after `condition`
  /// has been true for `timeout`.
  WaitWatch(std::function<bool()> condition, std::function<void()> act, Duration timeout = kPatience,
            WithoutThread without_thread = WithoutThread::kThrow);
  /// After this returns, `act` is not running and is never called again.
  ~WaitWatch();

 private:
  void Run();

  const std::function<bool()> condition_;
  const std::function<void()> act_;
  const Duration patience_;
  Mutex mutex_;
  Condition over_changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mtrun::trainers
