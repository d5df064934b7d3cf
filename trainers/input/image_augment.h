// Augmentation of whole batches on their device: every image of a batch is changed by the same few tensor
// operations with its own random numbers. Flips and crops are placements (placement.h); this makes the other
// changes. Pure functions of their
// arguments.
#pragma once

#include <torch/types.h>

#include "trainers/input/image_augmentation.h"

namespace mtrun::trainers {

/// The random numbers of `n` images, [n, k] on the stream's device (trainers/random/draw.h); undefined where
/// nothing is asked for. With a stream for each micro-batch the result is the same at any world size.
at::Tensor DrawAugmentation(int64_t n, const ImageAugmentation& options, const at::Tensor& stream);

/// `images`: [n, 3, S, S], normalised to [-1, 1], on the device of `random`; returns the same shape and
/// dtype, `images` itself where nothing is asked for. Order: rotation and translation, RandAugment, erasing.
/// Without RandAugment it does not wait for the device.
at::Tensor AugmentBy(const at::Tensor& random, const at::Tensor& images, const ImageAugmentation& options);

}  // namespace mtrun::trainers
