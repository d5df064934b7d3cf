// The length of a run, and what follows from it. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainers/run/rules/lifecycle.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {

struct RunLength {
  int64_t epochs = 1;
  int64_t steps = 0, steps_per_epoch = 1;
  bool operator==(const RunLength&) const = default;

  /// Returns the epoch, from 1, of the last one of `finished` steps.
  int64_t EpochOf(int64_t finished) const { return (finished - 1) / steps_per_epoch + 1; }
};

/// Returns the length by --epochs, or by --max_steps if that ends the run earlier.
RunLength LengthOf(const TrainOptions& options, int64_t steps_per_epoch);
RunRules RulesOf(const TrainOptions& options, const RunLength& length);
LrSchedule LrScheduleOf(const TrainOptions& options, const RunLength& length);
/// Returns sentences on a run that hardly learns: its epochs are single steps, or its warm-up never ends.
/// `images`: training images, at least 1.
std::vector<std::string> CautionsOf(const RunLength& length, const LrSchedule& schedule, int64_t global_batch,
                                    int64_t images);
/// Returns "" if, for a run at `step`, `schedule` continues the schedule of `earlier` steps. If not,
/// describes the new learning rate and the option that keeps the old one.
std::string DescribeOtherSchedule(const LrSchedule& schedule, int64_t earlier, int64_t step,
                                  int64_t steps_per_epoch);

}  // namespace mtrun::trainers
