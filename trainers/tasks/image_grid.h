// A batch of images as one picture.
#pragma once

#include <cstdint>
#include <string>

#include <torch/types.h>

#include "absl/status/status.h"

namespace mtrun::trainers {

/// Returns uint8 [rows, columns, 3] with `per_row` images in a row and a black line of `border` pixels around
/// each. `images`: [n, 3, H, W] on any device, -1 black to 1 white; other values are clipped.
at::Tensor ImageGrid(const at::Tensor& images, int64_t per_row, int64_t border = 2);

/// Writes ImageGrid as a PNG file beside `path` and renames it. If `per_row` is 0, the grid is about square.
absl::Status WriteImageGrid(const std::string& path, const at::Tensor& images, int64_t per_row = 0);

}  // namespace mtrun::trainers
