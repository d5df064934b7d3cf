#include "rendezvous/service/heartbeat_queue.h"

#include <asio/post.hpp>
#include <system_error>
#include <utility>

namespace mtrun::rendezvous {

void HeartbeatQueue::Add(std::function<void()> hear) {
  {
    const MutexLock lock(mu_);
    waiting_.push_back(std::move(hear));
    if (std::exchange(due_, true)) return;
  }
  asio::post(loop_, [this] { Begin(); });
}

void HeartbeatQueue::Begin() {
  if (!drained_ || MonotonicNow() >= *drained_ + pause_) return Drain();
  timer_.expires_at(*drained_ + pause_);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) Drain();
  });
}

void HeartbeatQueue::Drain() {
  std::vector<std::function<void()>> waited;
  {
    const MutexLock lock(mu_);
    waited.swap(waiting_);
    due_ = false;
  }
  drained_ = MonotonicNow();
  for (const std::function<void()>& hear : waited) hear();
}

}  // namespace mtrun::rendezvous
