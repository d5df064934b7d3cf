// Settings that a run's samples depend on. Independent of LibTorch.
#pragma once

#include <cstdint>

#include "datasets/order/sampler.h"
#include "trainers/input/image_augmentation.h"
#include "trainers/input/placement.h"
#include "trainers/input/reading.h"

namespace mtrun::trainers {

/// Everything but the data that the samples of a run and their order depend on.
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
