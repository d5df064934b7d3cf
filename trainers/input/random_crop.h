// RandomResizedCrop: which part of an image an epoch shows. Pure functions; free of LibTorch.
#pragma once

#include "absl/types/span.h"
#include "datasets/images/image.h"

namespace mtrun::trainers {

struct RandomCrop {
  double min_area = 0.08;                         // of the image's area; at most all of it
  double min_ratio = 3. / 4, max_ratio = 4. / 3;  // width / height
  bool operator==(const RandomCrop&) const = default;
};

/// Uniform numbers in [0, 1) that a crop takes: area and ratio of ten attempts, row, column.
inline constexpr int kCropDraws = 22;

/// The box of torchvision's RandomResizedCrop.get_params (torchvision/transforms/transforms.py) for these
/// numbers: an area between min_area and 1, a ratio whose logarithm is uniform, ten attempts to fit it in,
/// else the largest box of an allowed ratio in the middle. REQUIRES: uniform.size() == kCropDraws.
datasets::ImageBox RandomCropBox(const datasets::ImageSize& size, const RandomCrop& crop,
                                 absl::Span<const double> uniform);

/// The square in the middle whose side is `part` of the shorter one, rounded, at least a pixel.
datasets::ImageBox CentreSquare(const datasets::ImageSize& size, double part);

}  // namespace mtrun::trainers
