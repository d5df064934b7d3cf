#include "trainers/membership/step_times_mean.h"

namespace mtrun::trainers {

std::optional<channel::StepTimes> StepTimesMean::Add(const channel::StepTimes& step, bool watched,
                                                     TimePoint now) {
  if (!watched) {
    *this = {};
    return std::nullopt;
  }
  ++steps_;
  sum_.step = step.step;
  sum_.data_seconds += step.data_seconds;
  sum_.exchange_seconds += step.exchange_seconds;
  if (step.loss) sum_.loss = sum_.loss.value_or(0) + *step.loss;  // all steps have one, or none has
  if (step.accuracy) sum_.accuracy = sum_.accuracy.value_or(0) + *step.accuracy;
  sum_.learning_rate = step.learning_rate;
  sum_.epoch = step.epoch;
  sum_.epochs = step.epochs;
  sum_.total_steps = step.total_steps;
  sum_.run = step.run;
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
