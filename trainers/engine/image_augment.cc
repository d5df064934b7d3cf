#include "trainers/engine/image_augment.h"

#include <cmath>
#include <numbers>

#include "base/status_macros.h"
#include "trainers/engine/rand_augment.h"
#include "trainers/engine/warp.h"

namespace mtrun::engine {
namespace {

/// Random numbers of one image: these columns, then two for each RandAugment operation.
enum Column : int64_t {
  kFlip,
  kCropX,
  kCropY,
  kAngle,
  kMoveX,
  kMoveY,
  kErase,
  kArea,
  kRatio,
  kEraseX,
  kEraseY,
  kColumns
};

/// torchvision's range of height / width of an erased rectangle.
constexpr double kMinRatio = 0.3, kMaxRatio = 3.3;

at::Tensor Signed(const at::Tensor& uniform) { return uniform * 2 - 1; }

/// Whole pixels, by indices: no interpolation, so pixels keep their exact values.
at::Tensor FlipAndCrop(const at::Tensor& images, const ImageAugmentation& options, const at::Tensor& random) {
  const int64_t n = images.size(0), side = images.size(2), padding = options.crop_padding;
  const at::Tensor padded = at::constant_pad_nd(images, {padding, padding, padding, padding}, kBlack);
  const at::TensorOptions integer = images.options().dtype(at::kLong);
  const at::Tensor pixel = at::arange(side, integer).unsqueeze(0);
  const auto offset = [&](Column column) {
    return (random.select(1, column) * (2 * padding + 1)).floor().to(at::kLong).unsqueeze(1);
  };
  at::Tensor columns = pixel + offset(kCropX);
  const at::Tensor rows = pixel + offset(kCropY);
  if (options.flip) {
    const at::Tensor flipped = random.select(1, kFlip).unsqueeze(1) < 0.5;
    columns = at::where(flipped, side + 2 * padding - 1 - columns, columns);
  }
  const auto index = [&](int64_t size) { return at::arange(size, integer); };
  return padded.index({index(n).view({n, 1, 1, 1}), index(3).view({1, 3, 1, 1}), rows.view({n, 1, side, 1}),
                       columns.view({n, 1, 1, side})});
}

at::Tensor RotateAndTranslate(const at::Tensor& images, const ImageAugmentation& options,
                              const at::Tensor& random) {
  const at::Tensor angle = Signed(random.select(1, kAngle)) * (options.rotation * std::numbers::pi / 180);
  // A side is 2 long in a warp's coordinates.
  const at::Tensor x = Signed(random.select(1, kMoveX)) * (2 * options.translation);
  const at::Tensor y = Signed(random.select(1, kMoveY)) * (2 * options.translation);
  return Warp(images, Matrices(angle.cos(), -angle.sin(), x, angle.sin(), angle.cos(), y));
}

/// torchvision's RandomErasing after normalisation: the rectangle becomes 0, the middle grey.
at::Tensor Erase(const at::Tensor& images, const ImageAugmentation& options, const at::Tensor& random) {
  const auto side = static_cast<double>(images.size(2));
  // Then a rectangle of any allowed ratio fits and none has to be drawn twice.
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

at::Tensor DrawAugmentation(int64_t n, const ImageAugmentation& options, at::Generator generator) {
  if (!options.any()) return {};
  return at::rand({n, kColumns + 2 * options.rand_augment}, generator,
                  at::TensorOptions(at::kFloat).device(generator.device()));
}

at::Tensor AugmentBy(const at::Tensor& random, const at::Tensor& images, const ImageAugmentation& options) {
  if (!options.any() || images.size(0) == 0) return images;
  MT_CHECK(images.dim() == 4 && images.size(1) == 3 && images.size(2) == images.size(3));
  torch::NoGradGuard no_grad;
  at::Tensor x = images;
  if (options.flip || options.crop_padding > 0) x = FlipAndCrop(x, options, random);
  if (options.rotation > 0 || options.translation > 0) x = RotateAndTranslate(x, options, random);
  if (options.rand_augment > 0) {
    x = RandAugment(x, options.rand_magnitude, random.narrow(1, kColumns, 2 * options.rand_augment));
  }
  return options.erasing > 0 ? Erase(x, options, random) : x;
}

at::Tensor Augment(const at::Tensor& images, const ImageAugmentation& options, at::Generator generator) {
  const at::Tensor random = DrawAugmentation(images.size(0), options, generator);
  return random.defined() ? AugmentBy(random.to(images.device()), images, options) : images;
}

}  // namespace mtrun::engine
