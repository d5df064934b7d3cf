// Result of a finished step, the same on every member except for `times`. Independent of LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/order/sample_sum.h"
#include "trainers/step/step_sums.h"

namespace mtrun::trainers {

struct StepResult {
  double loss = 0;      // mean over the step's samples, with the weights before the update
  int64_t correct = 0;  // right predictions with those weights
  int64_t samples = 0;
  bool skipped = false;                    // loss scaling met an infinity: the weights are unchanged
  int leaving = 0;                         // members that want to leave after this step
  int regrouping = 0;                      // members that expect a new generation after this step
  datasets::SampleSum gathered = {};       // by all members, each when it made its batches
  StepTimes times = {};                    // this member's own
  std::vector<StepTimes> last_times = {};  // of all members in the generation's previous step, by rank; zero
                                           // in its first
};

}  // namespace mtrun::trainers
