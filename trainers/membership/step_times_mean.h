// Where the time of a worker's steps goes and what comes of them, for people who watch. A value; time is an
// argument.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/worker_channel.h"

namespace mtrun::trainers {

class StepTimesMean {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(2);  // told at most so often

  /// One more step. While somebody watches: what to tell now, the mean of the steps since that was done last.
  std::optional<channel::StepTimes> Add(const channel::StepTimes& step, bool watched, TimePoint now);

 private:
  channel::StepTimes sum_;
  int64_t steps_ = 0;
  std::optional<TimePoint> told_;
};

}  // namespace mtrun::trainers
