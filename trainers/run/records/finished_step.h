// A finished step as the run's files record it. A value type.
#pragma once

#include <cstdint>
#include <optional>

#include "datasets/order/sample_sum.h"
#include "trainers/run/records/metrics_log.h"
#include "trainers/step/step_sums.h"

namespace mtrun::trainers {

struct FinishedStep {
  StepRecord record;
  uint64_t generation = 1;
  int world = 1;
  datasets::SampleSum gathered = {};  // by all members
  // Only for curves.
  std::optional<int64_t> correct = {};       // correct predictions; unset if there are no classes
  StepTimes times = {};                      // this member's
  std::optional<double> gradient_norm = {};  // this and the next are measured occasionally
  std::optional<double> loss_scale = {};
  std::optional<int> gpu_busy_percent = {};  // this member's GPU; this and the next are measured occasionally
  std::optional<int64_t> gpu_memory = {};    // bytes in use on it, by any process
  bool operator==(const FinishedStep&) const = default;
};

}  // namespace mtrun::trainers
