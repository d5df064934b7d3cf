#include "trainers/membership/wait_watch.h"

#include <optional>
#include <utility>

#include "base/start_thread.h"

namespace mtrun::trainers {
namespace {

constexpr Duration kAskEvery = std::chrono::milliseconds(100);

}  // namespace

WaitWatch::WaitWatch(std::function<bool()> condition, std::function<void()> act, Duration timeout,
                     WithoutThread without_thread)
    : condition_(std::move(condition)), act_(std::move(act)), patience_(timeout) {
  if (without_thread == WithoutThread::kThrow) {
    thread_ = std::thread([this] { Run(); });
  } else {
    StartThread(&thread_, [this] { Run(); });
  }
}

WaitWatch::~WaitWatch() {
  {
    const MutexLock lock(mutex_);
    over_ = true;
  }
  over_changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void WaitWatch::Run() {
  const MutexLock lock(mutex_);
  std::optional<TimePoint> since;
  while (!over_) {
    const TimePoint now = MonotonicNow();
    if (!since && condition_()) since = now;
    if (since && now - *since >= patience_) return act_();
    over_changed_.WaitUntil(mutex_, since ? *since + patience_ : now + kAskEvery);
  }
}

}  // namespace mtrun::trainers
