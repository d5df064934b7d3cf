// Affine maps of whole batches of images. Pure functions.
#pragma once

#include <torch/types.h>

namespace mtrun::trainers {

/// Normalised value of a black pixel.
inline constexpr double kBlack = -1;

/// Returns [n, 2, 3] from six tensors [n]. The output pixel at (x, y) shows the input at (xx x + xy y + x0,
/// yx x + yy y + y0). Coordinates run from -1 to 1 over the side, and (0, 0) is the middle.
at::Tensor Matrices(const at::Tensor& xx, const at::Tensor& xy, const at::Tensor& x0, const at::Tensor& yx,
                    const at::Tensor& yy, const at::Tensor& y0);

/// Warps normalised `images` [n, 3, S, S]: bilinear, black outside.
at::Tensor Warp(const at::Tensor& images, const at::Tensor& matrices);

}  // namespace mtrun::trainers
