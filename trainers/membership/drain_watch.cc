#include "trainers/membership/drain_watch.h"

#include <optional>
#include <utility>

namespace mtrun::trainers {
namespace {

constexpr Duration kAskEvery = std::chrono::milliseconds(100);

}  // namespace

DrainWatch::DrainWatch(std::function<bool()> wants_drain, std::function<void()> give_up, Duration timeout)
    : wants_drain_(std::move(wants_drain)),
      give_up_(std::move(give_up)),
      patience_(timeout),
      thread_([this] { Run(); }) {}

DrainWatch::~DrainWatch() {
  {
    const MutexLock lock(mutex_);
    over_ = true;
  }
  over_changed_.NotifyAll();
  thread_.join();
}

void DrainWatch::Run() {
  const MutexLock lock(mutex_);
  std::optional<TimePoint> since;
  while (!over_) {
    const TimePoint now = MonotonicNow();
    if (!since && wants_drain_()) since = now;
    if (since && now - *since >= patience_) return give_up_();
    over_changed_.WaitUntil(mutex_, since ? *since + patience_ : now + kAskEvery);
  }
}

}  // namespace mtrun::trainers
