// Messages that the deciding thread can handle later: heartbeats. Waking it costs more than handling one, so
// if thousands of agents send them, it is woken once for all that come within a pause. A single one is
// handled at once.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::rendezvous {

class HeartbeatQueue {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(5);

  explicit HeartbeatQueue(asio::io_context& loop, Duration pause = kPause)
      : loop_(loop), pause_(pause), timer_(loop) {}

  /// Runs `hear` on the loop's thread, after those that came before: at once, or after a pause since the last
  /// run. Any thread.
  void Add(std::function<void()> hear);
  /// Handles all that wait, now. Call before deciding which nodes were silent. The loop's thread only.
  void Drain();

 private:
  void Begin();

  asio::io_context& loop_;
  const Duration pause_;
  // Used by the loop's thread only.
  asio::steady_timer timer_;
  std::optional<TimePoint> drained_;

  Mutex mu_;
  std::vector<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  bool due_ ABSL_GUARDED_BY(mu_) = false;  // the loop's thread knows that there is work
};

}  // namespace mtrun::rendezvous
