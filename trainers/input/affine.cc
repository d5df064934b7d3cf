#include "trainers/input/affine.h"

namespace mtrun::trainers {
namespace {

// Codes of at::grid_sampler.
constexpr int64_t kBilinear = 0, kZeroOutside = 0;

}  // namespace

at::Tensor Matrices(const at::Tensor& xx, const at::Tensor& xy, const at::Tensor& x0, const at::Tensor& yx,
                    const at::Tensor& yy, const at::Tensor& y0) {
  return at::stack({xx, xy, x0, yx, yy, y0}, 1).view({-1, 2, 3});
}

at::Tensor Warp(const at::Tensor& images, const at::Tensor& matrices) {
  const at::Tensor grid =
      at::affine_grid_generator(matrices.to(images.scalar_type()), images.sizes(), /*align_corners=*/false);
  return at::grid_sampler(images - kBlack, grid, kBilinear, kZeroOutside, /*align_corners=*/false) + kBlack;
}

}  // namespace mtrun::trainers
