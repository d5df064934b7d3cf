#include "trainers/membership/step_times_mean.h"

#include <utility>

namespace mtrun::trainers {

std::optional<channel::StepTimes> StepTimesMean::Add(const channel::StepTimes& step, bool watched,
                                                     TimePoint now) {
  if (!watched) {
    *this = {};
    return std::nullopt;
  }
  ++steps_;
  const channel::StepTimes before = std::exchange(sum_, step);
  sum_.data_seconds += before.data_seconds;
  sum_.exchange_seconds += before.exchange_seconds;
  if (sum_.loss) *sum_.loss += before.loss.value_or(0);  // all steps have one, or none has
  if (sum_.accuracy) *sum_.accuracy += before.accuracy.value_or(0);
  if (told_ && now - *told_ < kEvery) return std::nullopt;
  channel::StepTimes mean = sum_;
  mean.data_seconds /= static_cast<double>(steps_);
  mean.exchange_seconds /= static_cast<double>(steps_);
  if (mean.loss) *mean.loss /= static_cast<double>(steps_);
  if (mean.accuracy) *mean.accuracy /= static_cast<double>(steps_);
  *this = {};
  told_ = now;
  return mean;
}

}  // namespace mtrun::trainers
