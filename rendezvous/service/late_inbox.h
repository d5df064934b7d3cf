// What the deciding thread hears of in its own time: heartbeats. To wake it costs more than to hear one, so
// that where thousands of agents send them it is woken once for all that come within a pause. One that comes
// alone is heard at once.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::rendezvous {

class LateInbox {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(5);

  explicit LateInbox(asio::io_context& loop, Duration pause = kPause)
      : loop_(loop), pause_(pause), timer_(loop) {}

  /// Any thread. `hear` runs on the loop's thread, behind those that came before: at once, or a pause after
  /// the last ones were heard.
  void Add(std::function<void()> hear);
  /// The loop's thread: hears all that wait, now. What is decided by who was silent comes behind it.
  void Drain();

 private:
  void Begin();

  asio::io_context& loop_;
  const Duration pause_;
  // The loop's thread only.
  asio::steady_timer timer_;
  TimePoint drained_;

  Mutex mu_;
  std::vector<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  bool due_ ABSL_GUARDED_BY(mu_) = false;  // the loop's thread knows that there is something
};

}  // namespace mtrun::rendezvous
