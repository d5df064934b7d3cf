#include "trainers/tasks/image_grid.h"

#include <algorithm>
#include <cmath>

#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/images/png.h"

namespace mtrun::trainers {

at::Tensor ImageGrid(const at::Tensor& images, int64_t per_row, int64_t border) {
  MT_CHECK(images.dim() == 4 && images.size(0) > 0 && images.size(1) == 3 && per_row > 0);
  const int64_t n = images.size(0), columns = std::min(per_row, n), rows = (n + columns - 1) / columns;
  const at::Tensor bytes = images.detach()
                               .to(at::kCPU, at::kFloat)
                               .add(1)
                               .mul(127.5)
                               .round()
                               .clamp(0, 255)
                               .to(at::kByte)
                               .permute({0, 2, 3, 1});
  const int64_t height = images.size(2) + border, width = images.size(3) + border;
  at::Tensor grid = at::zeros({rows * height + border, columns * width + border, 3}, at::kByte);
  for (int64_t i = 0; i < n; ++i) {
    grid.narrow(0, i / columns * height + border, images.size(2))
        .narrow(1, i % columns * width + border, images.size(3))
        .copy_(bytes[i]);
  }
  return grid;
}

absl::Status WriteImageGrid(const std::string& path, const at::Tensor& images, int64_t per_row) {
  if (per_row == 0) per_row = std::llround(std::ceil(std::sqrt(static_cast<double>(images.size(0)))));
  const at::Tensor grid = ImageGrid(images, per_row);
  const auto* rgb = grid.const_data_ptr<uint8_t>();
  const datasets::RgbImage image{.size = {static_cast<int>(grid.size(0)), static_cast<int>(grid.size(1))},
                                 .pixels = {rgb, rgb + grid.numel()}};
  return WriteFileAtomically(path, datasets::EncodePng(image));
}

}  // namespace mtrun::trainers
