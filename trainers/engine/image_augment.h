// Augmentation of whole batches on their device: every image of a batch is changed by the same few tensor
// operations with its own random numbers. (augment.h places the bytes of a data set in host memory, flipped
// and cropped; this is for the other changes, and for data that lies on the device.) Pure functions of their
// arguments.
#pragma once

#include <torch/torch.h>

namespace mtrun::engine {

struct ImageAugmentation {
  bool flip = false;       // left to right, each image with probability 0.5
  int crop_padding = 0;    // moves by up to this many whole pixels both ways; what is uncovered is black
  double rotation = 0;     // by up to this many degrees either way, bilinear; what is uncovered is black
  double translation = 0;  // by up to this part of the side either way, bilinear
  int rand_augment = 0;    // so many of RandAugment's 14 operations in a row (Cubuk et al. 2020) ...
  int rand_magnitude = 9;  // ... of this strength, 0..30
  double erasing = 0;      // probability that a rectangle of the image becomes grey (Zhong et al. 2020) ...
  double erasing_min = 0.02, erasing_max = 0.2;  // ... of this part of its area

  bool any() const {
    return flip || crop_padding > 0 || rotation > 0 || translation > 0 || rand_augment > 0 || erasing > 0;
  }
};

/// `images`: [n, 3, S, S], normalised to [-1, 1]; returns the same shape and dtype, `images` itself when
/// nothing is asked for. Random numbers come from `generator` alone, on the generator's device, in a number
/// that depends on n and the options only: with a generator seeded per shard the result is the same at any
/// world size. Order: flip and crop, rotation and translation, RandAugment, erasing.
at::Tensor Augment(const at::Tensor& images, const ImageAugmentation& options, at::Generator generator);

}  // namespace mtrun::engine
