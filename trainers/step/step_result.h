// What a finished step comes to, the same on every member. Free of LibTorch.
#pragma once

#include <cstdint>

#include "datasets/sample_sum.h"

namespace mtrun::trainers {

struct StepResult {
  double loss = 0;      // mean over the step's samples, with the weights before the update
  int64_t correct = 0;  // right predictions, likewise
  int64_t samples = 0;
  bool skipped = false;               // loss scaling met an infinity: the weights are those before the step
  int leaving = 0;                    // members that want to go after this step
  int regrouping = 0;                 // members that know of a new generation to come after this step
  datasets::SampleSum gathered = {};  // by all members, each where it made its batches
};

}  // namespace mtrun::trainers
