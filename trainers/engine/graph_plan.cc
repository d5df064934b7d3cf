#include "trainers/engine/graph_plan.h"

namespace mtrun::engine {

GraphPlan::Action GraphPlan::Next(const WorkShape& shape) {
  if (shape.samples.empty()) return Action::kEager;
  in_a_row_ = shape == seen_ ? in_a_row_ + 1 : 1;
  seen_ = shape;
  if (shape == recorded_) return Action::kReplay;
  if (in_a_row_ <= kWarmUp) return Action::kEager;
  recorded_ = shape;
  return Action::kRecord;
}

}  // namespace mtrun::engine
