// Augments whole batches on their device: the same few tensor operations change every image of a batch, with
// its own random numbers. Flips and crops are placements (placement.h). Pure functions of their arguments.
#pragma once

#include <torch/types.h>

#include "trainers/input/image_augmentation.h"

namespace mtrun::trainers {

/// Draws random numbers of `n` images, [n, k] on the stream's device (trainers/random/draw.h). Returns an
/// undefined tensor if no augmentation is set. With a stream per micro-batch, the world size does not matter.
at::Tensor DrawAugmentation(int64_t n, const ImageAugmentation& options, const at::Tensor& stream);

/// Augments `images` [n, 3, S, S], normalised to [-1, 1], on the device of `random`. Returns the same shape
/// and dtype, or `images` itself if no augmentation is set. Order: rotation and translation, RandAugment,
/// erasing. Without RandAugment it does not wait for the device.
at::Tensor AugmentBy(const at::Tensor& random, const at::Tensor& images, const ImageAugmentation& options);

}  // namespace mtrun::trainers
