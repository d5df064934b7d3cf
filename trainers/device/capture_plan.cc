#include "trainers/device/capture_plan.h"

namespace mtrun::trainers {

CapturePlan::Action CapturePlan::Next(const WorkShape& shape) {
  if (shape.samples.empty()) return Action::kEager;
  in_a_row_ = shape == seen_ ? in_a_row_ + 1 : 1;
  seen_ = shape;
  if (shape == captured_) return Action::kReplay;
  if (in_a_row_ <= kWarmUp) return Action::kEager;
  captured_ = shape;
  return Action::kCapture;
}

}  // namespace mtrun::trainers
