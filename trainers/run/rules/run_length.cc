#include "trainers/run/rules/run_length.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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
  schedule.steps =
      options.schedule_epochs > 0 ? options.schedule_epochs * length.steps_per_epoch : length.steps;
  if (options.warmup_epochs > 0) schedule.warmup_steps = options.warmup_epochs * length.steps_per_epoch;
  return schedule;
}

std::string DescribeOtherSchedule(const LrSchedule& schedule, int64_t earlier, int64_t step,
                                  int64_t steps_per_epoch) {
  LrSchedule before = schedule;
  before.steps = earlier;
  const double was = LearningRate(before, step), is = LearningRate(schedule, step);
  if (schedule.kind == LrSchedule::Kind::kConstant || schedule.steps == earlier) return "";
  std::string text = absl::StrFormat(
      "the schedule ends at step %d, but this run began with one that ends at step %d: its next learning "
      "rate is %.4g instead of %.4g",
      schedule.steps, earlier, is, was);
  if (earlier % steps_per_epoch == 0) {
    absl::StrAppend(&text, ". --schedule_epochs ", earlier / steps_per_epoch, " keeps the original one");
  }
  return text;
}

}  // namespace mtrun::trainers
