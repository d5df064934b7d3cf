// A handler that keeps its replies until the test sends them.
#pragma once

#include <deque>
#include <utility>

#include "base/mutex.h"
#include "web/router.h"

namespace mtrun::web {

/// Thread-safe.
class HeldReplies {
 public:
  Handler handler() {
    return [this](Request request, Reply reply) {
      MutexLock lock(mu_);
      held_.emplace_back(std::move(request), std::move(reply));
      changed_.NotifyAll();
    };
  }

  /// Returns the oldest one; blocks until there is one.
  std::pair<Request, Reply> Next() {
    MutexLock lock(mu_);
    while (held_.empty()) changed_.Wait(mu_);
    std::pair<Request, Reply> next = std::move(held_.front());
    held_.pop_front();
    return next;
  }

 private:
  Mutex mu_;
  Condition changed_;
  std::deque<std::pair<Request, Reply>> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mtrun::web
