// Mixes the images of a micro-batch on their device, by tensor operations of fixed shape, so that a step can be
// captured in a graph.
#pragma once

#include <ATen/core/Tensor.h>

#include "trainers/input/mixing.h"

namespace mtrun::trainers {

/// Returns the draw as float32 [5] on `device`.
at::Tensor OnDevice(const MixingDraw& draw, at::Device device);

struct MixedImages {
  at::Tensor images;  // [n, 3, S, S]: each mixed with the one before it, the first with the last
  at::Tensor kept;    // 0-dimensional: the share of an image itself
};

/// `draw`: from OnDevice. REQUIRES: images is not empty.
MixedImages Mix(const at::Tensor& images, const at::Tensor& draw);

/// Returns the tensor [n, ...] moved on by one in the first dimension, in the same memory format.
at::Tensor MovedOn(const at::Tensor& x);

}  // namespace mtrun::trainers
