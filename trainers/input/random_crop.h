// RandomResizedCrop: the part of an image that an epoch shows. Pure functions, independent of LibTorch.
#pragma once

#include "absl/types/span.h"
#include "datasets/images/image.h"

namespace mtrun::trainers {

struct RandomCrop {
  double min_area = 0.08;                         // part of the image's area; the maximum is all of it
  double min_ratio = 3. / 4, max_ratio = 4. / 3;  // width / height
  bool operator==(const RandomCrop&) const = default;
};

/// Uniform numbers in [0, 1) for each crop: area and ratio of ten attempts, row, column.
inline constexpr int kCropDraws = 22;

/// Returns the box of torchvision's RandomResizedCrop.get_params (torchvision/transforms/transforms.py) for
/// these numbers. It makes ten attempts to fit in an area between min_area and 1, with a ratio whose
/// logarithm is uniform. If all fail, it returns the largest centred box of an allowed ratio. REQUIRES:
/// uniform.size() == kCropDraws.
datasets::ImageBox RandomCropBox(const datasets::ImageSize& size, const RandomCrop& crop,
                                 absl::Span<const double> uniform);

/// Returns the centred square whose side is `part` of the shorter one, rounded, at least a pixel.
datasets::ImageBox CentreSquare(const datasets::ImageSize& size, double part);

}  // namespace mtrun::trainers
