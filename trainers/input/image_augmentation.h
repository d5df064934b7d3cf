// Which random changes training images get beside flips and crops (placement.h); image_augment.h makes them.
// Free of LibTorch.
#pragma once

namespace mtrun::trainers {

struct ImageAugmentation {
  double rotation = 0;     // by up to this many degrees either way, bilinear; what is uncovered is black
  double translation = 0;  // by up to this part of the side either way, bilinear
  int rand_augment = 0;    // so many of RandAugment's 14 operations in a row (Cubuk et al. 2020) ...
  int rand_magnitude = 9;  // ... of this strength, 0..30
  double erasing = 0;      // probability that a rectangle of the image becomes grey (Zhong et al. 2020) ...
  double erasing_min = 0.02, erasing_max = 0.2;  // ... of this part of its area

  bool any() const { return rotation > 0 || translation > 0 || rand_augment > 0 || erasing > 0; }
};

}  // namespace mtrun::trainers
