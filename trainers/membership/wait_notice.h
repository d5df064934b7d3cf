// Tells the user what a worker waits for if that takes longer than a moment. Does not depend on LibTorch.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::trainers {

class WaitNotice {
 public:
  /// Calls `tell` on a thread of its own once `delay` has passed, unless it is destroyed first or the
  /// system has no threads left.
  explicit WaitNotice(std::function<void()> tell, Duration delay = std::chrono::seconds(2));
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;

 private:
  void Run(TimePoint when, const std::function<void()>& tell);

  Mutex mu_;
  Condition changed_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace mtrun::trainers
