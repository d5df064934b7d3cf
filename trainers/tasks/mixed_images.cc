#include "trainers/tasks/mixed_images.h"

#include <torch/types.h>

namespace mtrun::trainers {
namespace {

/// Returns whether each of `length` pixels of a side lies in the box around `middle`, as 0 or 1 in float32.
at::Tensor InBox(int64_t length, const at::Tensor& middle, const at::Tensor& half_side) {
  const at::Tensor pixel = at::arange(length, middle.options());
  const auto side = static_cast<double>(length);
  const at::Tensor centre = (middle * side).floor(), half = (half_side * side).floor();
  return (pixel >= centre - half).logical_and(pixel < centre + half).to(at::kFloat);
}

}  // namespace

at::Tensor OnDevice(const MixingDraw& draw, at::Device device) {
  return at::tensor({draw.cut ? 1.0F : 0.0F, draw.kept, draw.x, draw.y, draw.half_side}, at::kFloat)
      .to(device);
}

MixedImages Mix(const at::Tensor& images, const at::Tensor& draw) {
  const at::Tensor inside = InBox(images.size(2), draw[3], draw[4]).unsqueeze(1) *
                            InBox(images.size(3), draw[2], draw[4]).unsqueeze(0);
  // CutMix keeps what lies outside of the box, MixUp the same share of each pixel.
  const auto kept_of = [&](const at::Tensor& replaced) { return at::lerp(draw[1], 1 - replaced, draw[0]); };
  return {at::lerp(MovedOn(images), images, kept_of(inside).to(images.scalar_type())),
          kept_of(inside.mean())};
}

at::Tensor MovedOn(const at::Tensor& x) {
  const int64_t n = x.size(0);
  return at::cat({x.slice(0, n - 1, n), x.slice(0, 0, n - 1)});
}

}  // namespace mtrun::trainers
