#include "trainers/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

constexpr std::pair<LrSchedule::Kind, std::string_view> kNames[] = {
    {LrSchedule::Kind::kConstant, "constant"},
    {LrSchedule::Kind::kCosine, "cosine"},
    {LrSchedule::Kind::kOneCycle, "one_cycle"},
    {LrSchedule::Kind::kLinear, "linear"}};

/// Returns a value of half a cosine wave from `from` (fraction 0) to `to` (fraction 1).
double CosineBetween(double from, double to, double fraction) {
  return to + (from - to) / 2.0 * (1.0 + std::cos(std::numbers::pi * fraction));
}

double OneCycle(const LrSchedule& s, double step) {
  const double start = s.base / s.start_div;
  const double last = static_cast<double>(s.steps);
  const double peak = s.peak_at * (last + 1) - 1;
  if (step <= peak) return CosineBetween(start, s.base, step / peak);
  return CosineBetween(s.base, start / s.final_div, (step - peak) / (last - peak));
}

}  // namespace

double LearningRate(const LrSchedule& s, int64_t step) {
  step = std::clamp<int64_t>(step, 0, std::max<int64_t>(s.steps, 0));
  if (s.kind == LrSchedule::Kind::kOneCycle) return OneCycle(s, static_cast<double>(step));
  if (step < s.warmup_steps) {
    const double fraction = static_cast<double>(step) / static_cast<double>(s.warmup_steps);
    return s.base * (s.warmup_start + (1.0 - s.warmup_start) * fraction);
  }
  if (s.kind == LrSchedule::Kind::kConstant || s.steps <= s.warmup_steps) return s.base;
  const double fraction =
      static_cast<double>(step - s.warmup_steps) / static_cast<double>(s.steps - s.warmup_steps);
  return s.kind == LrSchedule::Kind::kLinear ? s.base * (1 - fraction) : CosineBetween(s.base, 0.0, fraction);
}

absl::StatusOr<LrSchedule::Kind> ParseLrScheduleKind(std::string_view text) {
  for (const auto& [kind, name] : kNames)
    if (text == name) return kind;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown schedule \"", std::string(text), "\": constant, cosine, one_cycle or linear"));
}

std::string_view LrScheduleKindName(LrSchedule::Kind kind) {
  for (const auto& [each, name] : kNames)
    if (each == kind) return name;
  return "";
}

}  // namespace mtrun::trainers
