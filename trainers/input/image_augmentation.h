// Random changes of training images, made by image_augment.h, other than flips and crops (placement.h).
// Independent of LibTorch.
#pragma once

namespace mtrun::trainers {

struct ImageAugmentation {
  double rotation = 0;     // maximum in degrees either way, bilinear; uncovered pixels are black
  double translation = 0;  // maximum part of the side either way, bilinear
  int rand_augment = 0;    // number of RandAugment's 14 operations in a row (Cubuk et al. 2020) ...
  int rand_magnitude = 9;  // ... and their strength, 0..30
  double erasing = 0;      // probability that a rectangle of the image becomes grey (Zhong et al. 2020) ...
  double erasing_min = 0.02, erasing_max = 0.2;  // ... that covers this part of the area

  bool any() const { return rotation > 0 || translation > 0 || rand_augment > 0 || erasing > 0; }
};

}  // namespace mtrun::trainers
