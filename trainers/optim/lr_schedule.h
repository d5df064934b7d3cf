// The learning rate of a step as a pure function of the step.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

struct LrSchedule {
  enum class Kind { kConstant, kCosine, kOneCycle, kLinear };
  Kind kind = Kind::kConstant;
  double base = 0.1;          // the rate that is warmed up to; the peak of one-cycle
  int64_t steps = 1;          // length of the run; all but constant end there
  int64_t warmup_steps = 0;   // linear, before all others (one-cycle brings its own)
  double warmup_start = 0.1;  // fraction of base at step 0 of the warm-up
  double peak_at = 0.3;       // one-cycle: fraction of the run spent rising
  double start_div = 25;      // one-cycle: starts at base / start_div ...
  double final_div = 1e4;     // ... and ends at base / start_div / final_div
  bool operator==(const LrSchedule&) const = default;
};

/// Returns the rate of `step` (0-based), equal to PyTorch's LinearLR, CosineAnnealingLR(T_max = steps -
/// warmup) and OneCycleLR(total_steps = steps + 1, anneal "cos"); linear falls to 0 at the end. Steps past
/// the end keep the last value.
double LearningRate(const LrSchedule& schedule, int64_t step);

/// Parses "constant", "cosine", "one_cycle" or "linear".
absl::StatusOr<LrSchedule::Kind> ParseLrScheduleKind(std::string_view text);
/// Returns the name that ParseLrScheduleKind takes.
std::string_view LrScheduleKindName(LrSchedule::Kind kind);

}  // namespace mtrun::trainers
