// The work of a stream that a test plays: it waits until the stream has come to it.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base/mutex.h"

namespace mtrun::trainers::testing {

class StreamWork : public c10d::Work {
 public:
  void Finish() {
    const MutexLock lock(mu_);
    done_ = true;
    changed_.NotifyAll();
  }
  /// As for a device, nothing says that it was aborted.
  bool wait(std::chrono::milliseconds) override {
    const MutexLock lock(mu_);
    while (!done_) changed_.Wait(mu_);
    return true;
  }

 private:
  Mutex mu_;
  Condition changed_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace mtrun::trainers::testing
