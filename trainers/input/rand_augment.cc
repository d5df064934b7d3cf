#include "trainers/input/rand_augment.h"

#include <cmath>
#include <numbers>

#include "base/status_macros.h"
#include "trainers/input/affine.h"

namespace mtrun::trainers {
namespace {

constexpr double kStrongest = 30;

// Strength of each operation at magnitude 30, from torchvision's RandAugment._augmentation_space.
constexpr double kShear = 0.3, kTranslate = 150.0 / 331.0, kRotateDegrees = 30, kBlend = 0.9,
                 kPosterizeBits = 4;

at::Tensor PerImage(const at::Tensor& values) { return values.view({-1, 1, 1, 1}); }

at::Tensor Geometric(const at::Tensor& images, RandOperation operation, double strength,
                     const at::Tensor& direction) {
  const at::Tensor zero = at::zeros_like(direction), one = at::ones_like(direction);
  switch (operation) {
    case RandOperation::kShearX:
      return Warp(images, Matrices(one, direction * (kShear * strength), zero, zero, one, zero));
    case RandOperation::kShearY:
      return Warp(images, Matrices(one, zero, zero, direction * (kShear * strength), one, zero));
    case RandOperation::kTranslateX:
      return Warp(images, Matrices(one, zero, direction * (2 * kTranslate * strength), zero, one, zero));
    case RandOperation::kTranslateY:
      return Warp(images, Matrices(one, zero, zero, zero, one, direction * (2 * kTranslate * strength)));
    default:
      break;
  }
  const at::Tensor angle = direction * (kRotateDegrees * strength * std::numbers::pi / 180);
  return Warp(images, Matrices(angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero));
}

/// Returns luma (ITU-R 601).
at::Tensor GreyValues(const at::Tensor& x) {
  return x.narrow(1, 0, 1) * 0.299 + x.narrow(1, 1, 1) * 0.587 + x.narrow(1, 2, 1) * 0.114;
}

/// Applies a 3x3 filter with weight 5 in the middle. The border is unchanged.
at::Tensor Smooth(const at::Tensor& x) {
  at::Tensor kernel = at::ones({3, 1, 3, 3}, x.options());
  kernel.select(2, 1).select(2, 1).fill_(5);
  at::Tensor out = x.clone();
  const int64_t side = x.size(2);
  out.narrow(2, 1, side - 2)
      .narrow(3, 1, side - 2)
      .copy_(at::conv2d(x, kernel / 13, {}, at::IntArrayRef({1, 1}), at::IntArrayRef({0, 0}),
                        at::IntArrayRef({1, 1}), /*groups=*/3));
  return out;
}

/// Interpolates between x (factor 1) and another image (factor 0), or extrapolates.
at::Tensor BlendValues(const at::Tensor& x, const at::Tensor& other, const at::Tensor& factor) {
  return (x * factor + other * (1 - factor)).clamp(0, 255);
}

at::Tensor AutoContrast(const at::Tensor& x) {
  const at::Tensor low = x.amin({2, 3}, true), range = x.amax({2, 3}, true) - low;
  return at::where(range > 0, (x - low) * (255 / range.clamp_min(1e-3)), x);
}

/// Equalises a channel's histogram as torchvision does, in integer arithmetic.
at::Tensor Equalize(const at::Tensor& x) {
  const int64_t channels = x.size(0) * x.size(1), pixels = x.size(2) * x.size(3);
  const at::Tensor value = x.round().clamp(0, 255).to(at::kLong).reshape({channels, pixels});
  const at::Tensor histogram =
      at::zeros({channels, 256}, value.options()).scatter_add_(1, value, at::ones_like(value));
  const at::Tensor brightest = histogram.gather(1, value.amax(1, true));
  const at::Tensor step = (pixels - brightest).div(255, "floor");
  const at::Tensor before = histogram.cumsum(1) - histogram;  // number of pixels darker than each value
  const at::Tensor divisor = step.clamp_min(1);
  const at::Tensor table = (before + step.div(2, "floor")).div(divisor, "floor").clamp(0, 255);
  return at::where(step > 0, table.gather(1, value), value).view(x.sizes()).to(x.scalar_type());
}

at::Tensor OnBytes(const at::Tensor& x, RandOperation operation, double strength,
                   const at::Tensor& direction) {
  const at::Tensor factor = PerImage(1 + direction * (kBlend * strength));
  switch (operation) {
    case RandOperation::kBrightness:
      return (x * factor).clamp(0, 255);
    case RandOperation::kColor:
      return BlendValues(x, GreyValues(x), factor);
    case RandOperation::kContrast:
      return BlendValues(x, GreyValues(x).mean({1, 2, 3}, true), factor);
    case RandOperation::kSharpness:
      return BlendValues(x, Smooth(x), factor);
    case RandOperation::kPosterize: {
      const double unit = std::exp2(std::round(kPosterizeBits * strength));
      return (x.round() / unit).floor() * unit;
    }
    case RandOperation::kSolarize:
      return at::where(x >= 255 * (1 - strength), 255 - x, x);
    case RandOperation::kAutoContrast:
      return AutoContrast(x);
    default:
      break;
  }
  return Equalize(x);
}

bool IsGeometric(RandOperation operation) {
  return operation >= RandOperation::kShearX && operation <= RandOperation::kRotate;
}

/// Applies `operation` to the images that are `chosen` [n].
at::Tensor ApplyWhere(const at::Tensor& images, const at::Tensor& chosen, RandOperation operation,
                      int magnitude, const at::Tensor& direction) {
  if (!images.is_cpu()) {  // selecting them would wait for the device
    return at::where(PerImage(chosen), ApplyRandOperation(images, operation, magnitude, direction), images);
  }
  const at::Tensor ids = chosen.nonzero().squeeze(1);
  if (ids.numel() == 0) return images;
  return images.index_copy(
      0, ids,
      ApplyRandOperation(images.index_select(0, ids), operation, magnitude, direction.index_select(0, ids)));
}

}  // namespace

at::Tensor ApplyRandOperation(const at::Tensor& images, RandOperation operation, int magnitude,
                              const at::Tensor& direction) {
  MT_CHECK(magnitude >= 0 && magnitude <= kStrongest) << "magnitude " << magnitude;
  const double strength = magnitude / kStrongest;
  if (operation == RandOperation::kIdentity) return images;
  if (IsGeometric(operation))
    return Geometric(images, operation, strength, direction.to(images.scalar_type()));
  const at::Tensor bytes = (images + 1) * 127.5;
  return OnBytes(bytes, operation, strength, direction.to(images.scalar_type())) / 127.5 - 1;
}

at::Tensor RandAugment(const at::Tensor& images, int magnitude, const at::Tensor& random) {
  at::Tensor x = images;
  for (int64_t round = 0; round < random.size(1) / 2; ++round) {
    const at::Tensor choice = (random.select(1, 2 * round) * kRandOperations).floor().to(at::kLong);
    const at::Tensor direction = at::where(random.select(1, 2 * round + 1) < 0.5, -1.0, 1.0);
    // Each image is in only one operation's mask. 0 is the identity.
    for (int64_t operation = 1; operation < kRandOperations; ++operation) {
      x = ApplyWhere(x, choice == operation, static_cast<RandOperation>(operation), magnitude, direction);
    }
  }
  return x;
}

}  // namespace mtrun::trainers
