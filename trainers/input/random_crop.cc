#include "trainers/input/random_crop.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

using datasets::ImageBox;
using datasets::ImageSize;

constexpr int kAttempts = 10;

/// Rounds as Python does: half to even.
int Rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

double Between(double low, double high, double uniform) { return low + (high - low) * uniform; }

/// Returns 0 .. count - 1.
int Below(int count, double uniform) { return std::min(count - 1, static_cast<int>(uniform * count)); }

ImageBox Middle(const ImageSize& size, int height, int width) {
  return {(size.height - height) / 2, (size.width - width) / 2, height, width};
}

/// Returns the box if no attempt fits: the whole image, or as much of its longer side as the ratio allows.
ImageBox Fallback(const ImageSize& size, const RandomCrop& crop) {
  const double ratio = static_cast<double>(size.width) / size.height;
  int height = size.height, width = size.width;
  if (ratio < crop.min_ratio) height = Rounded(width / crop.min_ratio);
  if (ratio > crop.max_ratio) width = Rounded(height * crop.max_ratio);
  return Middle(size, std::max(1, height), std::max(1, width));
}

}  // namespace

ImageBox RandomCropBox(const ImageSize& size, const RandomCrop& crop, absl::Span<const double> uniform) {
  MT_CHECK(uniform.size() == kCropDraws && size.pixels() > 0) << uniform.size();
  const auto pixels = static_cast<double>(size.pixels());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double area = pixels * Between(crop.min_area, 1, uniform[2 * attempt]);
    const double ratio =
        std::exp(Between(std::log(crop.min_ratio), std::log(crop.max_ratio), uniform[2 * attempt + 1]));
    const int width = Rounded(std::sqrt(area * ratio)), height = Rounded(std::sqrt(area / ratio));
    if (width < 1 || width > size.width || height < 1 || height > size.height) continue;
    return {Below(size.height - height + 1, uniform[2 * kAttempts]),
            Below(size.width - width + 1, uniform[2 * kAttempts + 1]), height, width};
  }
  return Fallback(size, crop);
}

ImageBox CentreSquare(const ImageSize& size, double part) {
  const int side = std::max(1, Rounded(part * std::min(size.height, size.width)));
  return Middle(size, side, side);
}

}  // namespace mtrun::trainers
