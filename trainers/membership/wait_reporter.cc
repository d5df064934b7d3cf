#include "trainers/membership/wait_reporter.h"

#include <algorithm>
#include <utility>

namespace mtrun::trainers {
namespace {

constexpr Duration kEvery = std::chrono::seconds(1);

}  // namespace

Duration CountedWait::Count(Duration waited, bool lease_over, TimePoint now) {
  if (lease_over) over_at_ = now;
  if (lease_over) return kEvery;
  return over_at_ ? std::min(waited, now - *over_at_) : waited;
}

WaitReporter::WaitReporter(std::function<void(const channel::Waiting&)> send,
                           std::function<bool()> lease_over)
    : send_(std::move(send)), lease_over_(std::move(lease_over)), thread_([this] { Run(); }) {}

WaitReporter::~WaitReporter() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  thread_.join();
}

void WaitReporter::Watch(const channel::Generation& generation, Waited waited) {
  const MutexLock lock(mutex_);
  generation_ = generation;
  waited_ = std::move(waited);
}

void WaitReporter::Run() {
  const MutexLock lock(mutex_);
  CountedWait counted;
  TimePoint next = MonotonicNow() + kEvery;
  while (!stop_) {
    if (stopped_.WaitUntil(mutex_, next)) continue;
    const TimePoint now = MonotonicNow();
    next = now + kEvery;
    const Duration waited =
        counted.Count(waited_ ? waited_() : Duration::zero(), lease_over_ && lease_over_(), now);
    if (waited < kEvery) continue;
    const channel::Waiting news{generation_, ToSeconds(waited)};
    mutex_.Unlock();  // an agent that hangs must not block the training thread
    send_(news);
    mutex_.Lock();
  }
}

}  // namespace mtrun::trainers
