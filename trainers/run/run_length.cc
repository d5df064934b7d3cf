#include "trainers/run/run_length.h"

#include <algorithm>

namespace mtrun::trainers {

RunLength LengthOf(const TrainOptions& options, int64_t steps_per_epoch) {
  const int64_t all = options.epochs * steps_per_epoch;
  return {.epochs = options.epochs,
          .steps = options.max_steps > 0 ? std::min(all, options.max_steps) : all,
          .steps_per_epoch = steps_per_epoch};
}

RunRules RulesOf(const TrainOptions& options, const RunLength& length) {
  return {.steps = length.steps,
          .steps_per_epoch = length.steps_per_epoch,
          .save_steps = options.checkpoint_steps,
          .save_epochs = options.checkpoint_epochs,
          .save_interval = FromSeconds(options.checkpoint_seconds)};
}

LrSchedule LrScheduleOf(const TrainOptions& options, const RunLength& length) {
  LrSchedule schedule = options.schedule;
  schedule.steps = length.steps;
  return schedule;
}

}  // namespace mtrun::trainers
