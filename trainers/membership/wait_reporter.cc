#include "trainers/membership/wait_reporter.h"

#include <utility>

namespace mtrun::trainers {
namespace {

constexpr Duration kEvery = std::chrono::seconds(1);

}  // namespace

WaitReporter::WaitReporter(std::function<void(const channel::Waiting&)> send)
    : send_(std::move(send)), thread_([this] { Run(); }) {}

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
  TimePoint next = MonotonicNow() + kEvery;
  while (!stop_) {
    if (stopped_.WaitUntil(mutex_, next)) continue;
    next = MonotonicNow() + kEvery;
    const Duration waited = waited_ ? waited_() : Duration::zero();
    if (waited < kEvery) continue;
    const channel::Waiting news{generation_, ToSeconds(waited)};
    mutex_.Unlock();  // an agent that hangs itself must not hold up the training thread
    send_(news);
    mutex_.Lock();
  }
}

}  // namespace mtrun::trainers
