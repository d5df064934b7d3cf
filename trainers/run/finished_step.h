// A finished step as the run's files record it. A value.
#pragma once

#include <cstdint>
#include <optional>

#include "datasets/sample_sum.h"
#include "trainers/run/metrics_log.h"
#include "trainers/step/step_result.h"
#include "trainers/step/step_sums.h"

namespace mtrun::trainers {

struct FinishedStep {
  StepRecord record;
  uint64_t generation = 1;
  int world = 1;
  datasets::SampleSum gathered = {};  // by all members
  // For curves alone.
  std::optional<int64_t> correct = {};       // right predictions; nothing without classes
  StepTimes times = {};                      // this member's
  std::optional<double> gradient_norm = {};  // these two are looked at now and then
  std::optional<double> loss_scale = {};
  std::optional<int> gpu_busy_percent = {};  // of this member's GPU; both now and then
  std::optional<int64_t> gpu_memory = {};    // bytes in use there, by whomever
  bool operator==(const FinishedStep&) const = default;
};

}  // namespace mtrun::trainers
