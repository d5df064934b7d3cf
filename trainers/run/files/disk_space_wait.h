// Waits for a disk that is full or read-only: logs the reason, again after a minute, and pauses between two
// attempts. Not thread-safe.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::trainers {

class DiskSpaceWait {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(200);
  static constexpr Duration kSayAgain = std::chrono::minutes(1);

  /// `give_up` returns true if something is more urgent than the wait. `still_here` is called before each
  /// retry, so that this worker is not considered hung.
  DiskSpaceWait(std::function<bool()> give_up, std::function<void()> still_here)
      : give_up_(std::move(give_up)), still_here_(std::move(still_here)) {}

  /// `full` is the disk's error. Returns true after a pause (try again), or false at once (give up).
  bool operator()(const absl::Status& full);

 private:
  std::function<bool()> give_up_;
  std::function<void()> still_here_;
  TimePoint said_{}, tried_{};
};

}  // namespace mtrun::trainers
