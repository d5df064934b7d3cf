// What a finished step comes to, the same on every member but for `times`. Free of LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/sample_sum.h"
#include "trainers/step/step_sums.h"

namespace mtrun::trainers {

struct StepResult {
  double loss = 0;      // mean over the step's samples, with the weights before the update
  int64_t correct = 0;  // right predictions, likewise
  int64_t samples = 0;
  bool skipped = false;               // loss scaling met an infinity: the weights are those before the step
  int leaving = 0;                    // members that want to go after this step
  int regrouping = 0;                 // members that know of a new generation to come after this step
  datasets::SampleSum gathered = {};  // by all members, each where it made its batches
  StepTimes times = {};               // this member's own
  std::vector<StepTimes> last_times = {};  // everybody's in the generation's step before, by rank; zero in
                                           // its first one
};

}  // namespace mtrun::trainers
