#include "trainers/membership/wait_notice.h"

#include <utility>

#include "base/start_thread.h"

namespace mtrun::trainers {

WaitNotice::WaitNotice(std::function<void()> tell, Duration delay) {
  StartThread(&thread_, [this, when = MonotonicNow() + delay, tell = std::move(tell)] { Run(when, tell); });
}

WaitNotice::~WaitNotice() {
  {
    const MutexLock lock(mu_);
    over_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void WaitNotice::Run(TimePoint when, const std::function<void()>& tell) {
  {
    const MutexLock lock(mu_);
    while (!over_ && changed_.WaitUntil(mu_, when)) {
    }
    if (over_) return;
  }
  tell();
}

}  // namespace mtrun::trainers
