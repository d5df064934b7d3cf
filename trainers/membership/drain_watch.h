// Ends a wait for the other workers on behalf of one that is to go: a signal and an agent's request wake
// nobody who waits for keys or connections, and where the service is lost too nobody else ends the wait.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::trainers {

class DrainWatch {
 public:
  /// A wait that is about to succeed may do so: who leaves after a step costs the others none.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  /// For the life of this object a thread of its own asks `wants_drain` and calls `give_up`, once, when that
  /// has been true for `patience`.
  DrainWatch(std::function<bool()> wants_drain, std::function<void()> give_up, Duration patience = kPatience);
  /// When this returns `give_up` is not running and never will.
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
