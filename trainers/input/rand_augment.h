// RandAugment (Cubuk et al. 2020) with torchvision's 14 operations and magnitudes, for whole batches. Pure
// functions.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace mtrun::trainers {

enum class RandOperation : int64_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize
};
inline constexpr int64_t kRandOperations = 14;

/// Augments `images` [n, 3, S, S], normalised. `magnitude`: 0..30. `random`: [n, 2k] in [0, 1), for each of k
/// rounds a number that chooses the operation and one that chooses its direction.
at::Tensor RandAugment(const at::Tensor& images, int magnitude, const at::Tensor& random);

/// Applies one operation to all images. `direction` [n]: 1 or -1, if an operation has two. Geometric ones are
/// about the middle, bilinear, black outside. Others work on values 0..255 as torchvision's do on bytes.
at::Tensor ApplyRandOperation(const at::Tensor& images, RandOperation operation, int magnitude,
                              const at::Tensor& direction);

}  // namespace mtrun::trainers
