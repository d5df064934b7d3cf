// Augmentation of whole batches on their device: every image of a batch is changed by the same few tensor
// operations with its own random numbers. (augment.h places the bytes of a data set in host memory, flipped
// and cropped; this is for the other changes, and for data that lies on the device.) Pure functions of their
// arguments.
#pragma once

#include <torch/torch.h>

#include "trainers/engine/image_augmentation.h"

namespace mtrun::engine {

/// `images`: [n, 3, S, S], normalised to [-1, 1]; returns the same shape and dtype, `images` itself when
/// nothing is asked for. Random numbers come from `generator` alone, on the generator's device, in a number
/// that depends on n and the options only: with a generator seeded per shard the result is the same at any
/// world size. Order: flip and crop, rotation and translation, RandAugment, erasing.
at::Tensor Augment(const at::Tensor& images, const ImageAugmentation& options, at::Generator generator);

/// Augment in two halves: the random numbers of `n` images, [n, k] on the generator's device; undefined where
/// nothing is asked for ...
at::Tensor DrawAugmentation(int64_t n, const ImageAugmentation& options, at::Generator generator);
/// ... and what they come to, on the images' device. Without RandAugment it does not wait for the device.
at::Tensor AugmentBy(const at::Tensor& random, const at::Tensor& images, const ImageAugmentation& options);

}  // namespace mtrun::engine
