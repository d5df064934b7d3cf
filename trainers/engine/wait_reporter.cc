#include "trainers/engine/wait_reporter.h"

#include <utility>

namespace mtrun::engine {
namespace {

constexpr Duration kEvery = std::chrono::seconds(1);

}  // namespace

WaitReporter::WaitReporter(std::function<void(const channel::Waiting&)> send)
    : send_(std::move(send)), thread_([this] { Run(); }) {}

WaitReporter::~WaitReporter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void WaitReporter::Watch(const channel::Generation& generation, Waited waited) {
  const std::lock_guard lock(mutex_);
  generation_ = generation;
  waited_ = std::move(waited);
}

void WaitReporter::Run() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kEvery, [this] { return stop_; })) {
    const Duration waited = waited_ ? waited_() : Duration::zero();
    if (waited < kEvery) continue;
    const channel::Waiting news{generation_, ToSeconds(waited)};
    lock.unlock();  // an agent that stands still itself must not hold up the training thread
    send_(news);
    lock.lock();
  }
}

}  // namespace mtrun::engine
