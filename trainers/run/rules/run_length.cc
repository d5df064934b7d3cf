#include "trainers/run/rules/run_length.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::trainers {
namespace {

constexpr int64_t kStepsOfSmallEpoch = 8;  // in advice: several updates in each pass over a few images

}  // namespace

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
  if (options.warmup_share < 1) {
    const auto most = static_cast<int64_t>(options.warmup_share * static_cast<double>(schedule.steps));
    schedule.warmup_steps = std::min(schedule.warmup_steps, most);
  }
  return schedule;
}

std::vector<std::string> CautionsOf(const RunLength& length, const LrSchedule& schedule, int64_t global_batch,
                                    int64_t images) {
  std::vector<std::string> cautions;
  if (length.steps_per_epoch == 1 && images > 1) {
    const int64_t fitting = std::max<int64_t>(images / kStepsOfSmallEpoch, 1);
    cautions.push_back(absl::StrCat("a step takes ", global_batch, " images, and there are ", images,
                                    " training images: each epoch is one step. --global_batch ", fitting,
                                    " gives it ", (images - 1) / fitting + 1));
  }
  if (schedule.warmup_steps > 0 && schedule.warmup_steps >= length.steps) {
    cautions.push_back(absl::StrFormat(
        "the warm-up takes %d steps, and the run has %d: the learning rate never reaches %.4g. "
        "--warmup_share 0.1 limits it to a tenth of the run",
        schedule.warmup_steps, length.steps, schedule.base));
  }
  return cautions;
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
