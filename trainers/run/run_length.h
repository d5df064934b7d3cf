// How long a run is, and what follows from that. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "trainers/run/lifecycle.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

struct RunLength {
  int64_t epochs = 1;
  int64_t steps = 0, steps_per_epoch = 1;
  bool operator==(const RunLength&) const = default;

  /// Of the last one of `finished` steps, from 1.
  int64_t EpochOf(int64_t finished) const { return (finished - 1) / steps_per_epoch + 1; }
};

/// --epochs, unless --max_steps end the run before.
RunLength LengthOf(const TrainOptions& options, int64_t steps_per_epoch);
RunRules RulesOf(const TrainOptions& options, const RunLength& length);
LrSchedule LrScheduleOf(const TrainOptions& options, const RunLength& length);
/// "" where `schedule` goes on as the one of `earlier` steps did, of a run that stands at `step`; else what
/// becomes of the learning rate, and which option keeps it.
std::string DescribeOtherSchedule(const LrSchedule& schedule, int64_t earlier, int64_t step,
                                  int64_t steps_per_epoch);

}  // namespace mtrun::trainers
