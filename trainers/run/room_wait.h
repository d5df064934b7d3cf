// Waits for a disk that is full or read-only: says once what the run waits for, and pauses between two tries. Not
// thread-safe.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::trainers {

class RoomWait {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(200);
  static constexpr Duration kSayAgain = std::chrono::minutes(1);

  /// `give_up`: there is something more urgent than to wait. `still_here` is called with each try: who waits
  /// is not hung.
  RoomWait(std::function<bool()> give_up, std::function<void()> still_here)
      : give_up_(std::move(give_up)), still_here_(std::move(still_here)) {}

  /// `full` is the disk's error. Returns true after a pause: try again; false at once: do not.
  bool operator()(const absl::Status& full);

 private:
  std::function<bool()> give_up_;
  std::function<void()> still_here_;
  TimePoint said_{}, tried_{};
};

}  // namespace mtrun::trainers
