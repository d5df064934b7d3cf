// The mean times and losses of a worker's steps, for users who watch. A value; time is an argument.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/worker_channel.h"

namespace mtrun::trainers {

class StepTimesMean {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(2);  // shortest interval of reports

  /// Adds a step. If a report is due and a user watches, returns the mean of the steps since the last report.
  std::optional<channel::StepTimes> Add(const channel::StepTimes& step, bool watched, TimePoint now);

 private:
  channel::StepTimes sum_;  // with the other values of the last step
  int64_t steps_ = 0;
  std::optional<TimePoint> told_;
};

}  // namespace mtrun::trainers
