// Requests to the thread of OutputMux. The thread answers them in passes: a pass that began after a request
// has handled all output that was written before the request.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::launcher {

/// Actions at the end of a pass.
struct PassWork {
  uint64_t close_up_to = 0;  // streams with this serial number or a smaller one; 0: none
  bool keep = false;         // hand the closed streams off
  bool stop = false;         // close all streams and end the thread
};

/// Methods may be called from any thread.
class OutputPasses {
 public:
  struct Pass {
    PassWork work;
    bool requested = false;
    uint64_t number = 0;
  };

  /// Requests a pass. `wake` makes the thread begin one.
  uint64_t Request(const PassWork& work);
  /// Waits until the pass has ended; returns whether it has. Each change of `progress` extends the wait by
  /// `timeout`, and `hurry` ends it.
  bool Await(uint64_t number, Duration timeout, const std::function<uint64_t()>& progress = {},
             const std::function<bool()>& hurry = {});

  Pass Begin();
  void End(const Pass& pass);

 private:
  Mutex mu_;
  Condition ended_;
  PassWork work_ ABSL_GUARDED_BY(mu_);
  uint64_t wanted_ ABSL_GUARDED_BY(mu_) = 0, done_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace mtrun::launcher
