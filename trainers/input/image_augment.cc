#include "trainers/input/image_augment.h"

#include <cmath>
#include <numbers>

#include "base/status_macros.h"
#include "trainers/input/affine.h"
#include "trainers/input/rand_augment.h"
#include "trainers/random/draw.h"

namespace mtrun::trainers {
namespace {

/// Columns of one image's random numbers, followed by two for each RandAugment operation.
enum Column : int64_t { kAngle, kMoveX, kMoveY, kErase, kArea, kRatio, kEraseX, kEraseY, kColumns };

/// Range of height / width of an erased rectangle, as in torchvision.
constexpr double kMinRatio = 0.3, kMaxRatio = 3.3;

at::Tensor Signed(const at::Tensor& uniform) { return uniform * 2 - 1; }

at::Tensor RotateAndTranslate(const at::Tensor& images, const ImageAugmentation& options,
                              const at::Tensor& random) {
  const at::Tensor angle = Signed(random.select(1, kAngle)) * (options.rotation * std::numbers::pi / 180);
  // A side has length 2 in a warp's coordinates.
  const at::Tensor x = Signed(random.select(1, kMoveX)) * (2 * options.translation);
  const at::Tensor y = Signed(random.select(1, kMoveY)) * (2 * options.translation);
  return Warp(images, Matrices(angle.cos(), -angle.sin(), x, angle.sin(), angle.cos(), y));
}

/// Erases like torchvision's RandomErasing after normalisation: the rectangle becomes 0, the middle grey.
at::Tensor Erase(const at::Tensor& images, const ImageAugmentation& options, const at::Tensor& random) {
  const auto side = static_cast<double>(images.size(2));
  // If this holds, a rectangle of any allowed ratio fits and none has to be drawn twice.
  MT_CHECK(options.erasing_max * kMaxRatio < 1) << "erased area " << options.erasing_max;
  const at::Tensor area =
      (random.select(1, kArea) * (options.erasing_max - options.erasing_min) + options.erasing_min) *
      (side * side);
  const at::Tensor ratio =
      (random.select(1, kRatio) * (std::log(kMaxRatio) - std::log(kMinRatio)) + std::log(kMinRatio)).exp();
  const at::Tensor pixel = at::arange(images.size(2), random.options()).unsqueeze(0);
  const auto inside = [&](const at::Tensor& length, Column column) {  // [n, S]
    const at::Tensor size = length.round();
    const at::Tensor begin = (random.select(1, column) * (side - size + 1)).floor();
    return (pixel >= begin.unsqueeze(1)).logical_and(pixel < (begin + size).unsqueeze(1));
  };
  const at::Tensor rows = inside((area * ratio).sqrt(), kEraseY),
                   columns = inside((area / ratio).sqrt(), kEraseX);
  const at::Tensor chosen = (random.select(1, kErase) < options.erasing).view({-1, 1, 1});
  const at::Tensor mask = rows.unsqueeze(2).logical_and(columns.unsqueeze(1)).logical_and(chosen);
  return images.masked_fill(mask.unsqueeze(1), 0);
}

}  // namespace

at::Tensor DrawAugmentation(int64_t n, const ImageAugmentation& options, const at::Tensor& stream) {
  if (!options.any()) return {};
  return DrawUniform({n, kColumns + 2 * options.rand_augment}, stream);
}

at::Tensor AugmentBy(const at::Tensor& random, const at::Tensor& images, const ImageAugmentation& options) {
  if (!options.any() || images.size(0) == 0) return images;
  MT_CHECK(images.dim() == 4 && images.size(1) == 3 && images.size(2) == images.size(3));
  torch::NoGradGuard no_grad;
  at::Tensor x = images;
  if (options.rotation > 0 || options.translation > 0) x = RotateAndTranslate(x, options, random);
  if (options.rand_augment > 0) {
    x = RandAugment(x, options.rand_magnitude, random.narrow(1, kColumns, 2 * options.rand_augment));
  }
  return options.erasing > 0 ? Erase(x, options, random) : x;
}

}  // namespace mtrun::trainers
