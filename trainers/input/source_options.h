// What a run's samples depend on, as settings say it. Free of LibTorch.
#pragma once

#include <cstdint>

#include "datasets/sampler.h"
#include "trainers/input/image_augmentation.h"
#include "trainers/input/placement.h"
#include "trainers/input/reading.h"

namespace mtrun::trainers {

/// What the samples of a run and their order depend on beside the data.
struct SourceOptions {
  uint64_t seed = 0;
  datasets::BatchPlan plan;
  datasets::Shuffle shuffle = datasets::Shuffle::kFull;
  int64_t shuffle_window = datasets::kStreamWindow;
  Augmentation augmentation;
  ImageAugmentation warps;
  Reading reading;
};

}  // namespace mtrun::trainers
