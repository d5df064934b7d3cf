// The monotonic clocks of a simulated cluster's nodes. Each starts at another time and runs slightly too fast
// or too slow. A value; not thread-safe.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/clock.h"

namespace mtrun::launcher {

class SimulatedClocks {
 public:
  /// Rates differ from true time by at most `drift_ppm` millionths.
  SimulatedClocks(size_t nodes, uint64_t drift_ppm, std::mt19937_64& random) {
    for (size_t i = 0; i < nodes; ++i) {
      const auto off = static_cast<int64_t>(random() % (2 * drift_ppm + 1)) - static_cast<int64_t>(drift_ppm);
      clocks_.push_back({kMillion + off, std::chrono::seconds(1 + random() % 1000)});
    }
  }

  /// Returns what the node's clock shows at the true time `now`.
  TimePoint On(size_t node, TimePoint now) const {
    const Clock& clock = clocks_[node];
    return TimePoint(clock.begin +
                     Duration(now.time_since_epoch().count() / kMillion * clock.rate +
                              now.time_since_epoch().count() % kMillion * clock.rate / kMillion));
  }
  /// Returns the true time at which the node's clock shows `shown` or slightly more.
  TimePoint When(size_t node, TimePoint shown) const {
    const Clock& clock = clocks_[node];
    const int64_t count = (shown.time_since_epoch() - clock.begin).count();
    return TimePoint(
        Duration(count / clock.rate * kMillion + count % clock.rate * kMillion / clock.rate + 1));
  }

 private:
  static constexpr int64_t kMillion = 1'000'000;
  struct Clock {
    int64_t rate;  // per million
    Duration begin;
  };
  std::vector<Clock> clocks_;
};

}  // namespace mtrun::launcher
