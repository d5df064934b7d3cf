// A batch of images as one picture.
#pragma once

#include <cstdint>
#include <string>

#include <torch/types.h>

#include "absl/status/status.h"

namespace mtrun::trainers {

/// `images`: [n, 3, H, W], -1 black to 1 white (beyond: clipped), any device. uint8 [rows, columns, 3] with
/// `per_row` images in a row and a black line of `border` pixels around each.
at::Tensor ImageGrid(const at::Tensor& images, int64_t per_row, int64_t border = 2);

/// ImageGrid as a PNG file, written beside `path` and renamed. `per_row` 0: about as many as rows.
absl::Status WriteImageGrid(const std::string& path, const at::Tensor& images, int64_t per_row = 0);

}  // namespace mtrun::trainers
