#include "datasets/images/resample.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "datasets/images/blend.h"
#include "datasets/images/triangle_kernel.h"

namespace mtrun::datasets {
namespace {

// Area averaging ------------------------------------------------------------------------------------------

/// Source pixel j covers [j to, (j + 1) to) and output pixel i covers [i from, (i + 1) from), in units of 1 /
/// to pixel. The weight is the length of their overlap; the weights of one output pixel add up to `from`.
Kernel AreaKernel(int64_t from, int64_t to) {
  Kernel kernel;
  for (int64_t i = 0; i < to; ++i) {
    const int64_t begin = i * from, end = begin + from;
    const int64_t first = begin / to, last = (end + to - 1) / to;
    kernel.taps.push_back({static_cast<int>(first), static_cast<int>(last - first),
                           static_cast<int64_t>(kernel.weights.size())});
    for (int64_t j = first; j < last; ++j) {
      kernel.weights.push_back(static_cast<int32_t>(std::min(end, (j + 1) * to) - std::max(begin, j * to)));
    }
  }
  return kernel;
}

/// Computes one row of sums over columns: at most 255 * 65535 each.
void SumColumns(const uint8_t* row, const Kernel& columns, uint32_t* sums) {
  for (const Taps& taps : columns.taps) {
    const int32_t* weight = columns.weights_of(taps);
    const uint8_t* pixel = row + size_t{3} * taps.first;
    uint32_t red = 0, green = 0, blue = 0;
    for (int k = 0; k < taps.count; ++k, pixel += 3) {
      const auto w = static_cast<uint32_t>(weight[k]);
      red += w * pixel[0];
      green += w * pixel[1];
      blue += w * pixel[2];
    }
    *sums++ = red;
    *sums++ = green;
    *sums++ = blue;
  }
}

}  // namespace

EighthsBox InEighths(const ImageBox& box) {
  return {int64_t{8} * box.top, int64_t{8} * box.left, int64_t{8} * box.height, int64_t{8} * box.width};
}

RgbImage AverageArea(const RgbImage& image, const ImageSize& target) {
  MT_CHECK(image.size.pixels() > 0 && target.pixels() > 0) << SizeText(image.size) << " " << SizeText(target);
  const Kernel columns = AreaKernel(image.size.width, target.width);
  const Kernel rows = AreaKernel(image.size.height, target.height);
  const auto total = static_cast<uint64_t>(image.size.pixels());  // all weights of one output pixel
  const size_t stride = size_t{3} * target.width;
  std::vector<uint32_t> sums(stride);
  std::vector<uint64_t> area(stride);
  RgbImage out = MakeImage(target);
  int summed = -1;  // the source row in `sums`: adjacent output rows share one
  for (int y = 0; y < target.height; ++y) {
    const Taps& taps = rows.taps[y];
    const int32_t* weight = rows.weights_of(taps);
    std::fill(area.begin(), area.end(), total / 2);
    for (int k = 0; k < taps.count; ++k) {
      if (summed != taps.first + k) {
        summed = taps.first + k;
        SumColumns(image.pixels.data() + size_t{3} * summed * image.size.width, columns, sums.data());
      }
      const auto w = static_cast<uint64_t>(weight[k]);
      for (size_t x = 0; x < stride; ++x) area[x] += w * sums[x];
    }
    uint8_t* row = out.pixels.data() + y * stride;
    for (size_t x = 0; x < stride; ++x) row[x] = static_cast<uint8_t>(area[x] / total);
  }
  return out;
}

RgbImage ResizeBilinear(const RgbImage& image, const EighthsBox& box, const ImageSize& target) {
  MT_CHECK(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 && target.pixels() > 0 &&
           box.top + box.height <= int64_t{8} * image.size.height &&
           box.left + box.width <= int64_t{8} * image.size.width)
      << SizeText(image.size) << " to " << SizeText(target);
  const Kernel columns = TriangleKernel(box.left, box.width, target.width);
  const Kernel rows = TriangleKernel(box.top, box.height, target.height);
  const int first = rows.taps.front().first, last = rows.taps.back().first + rows.taps.back().count;
  const size_t stride = size_t{3} * target.width, width = size_t{3} * image.size.width;
  std::vector<uint8_t> narrow((last - first) * stride);  // the rows, as wide as the target
  std::vector<uint8_t> row(width + 1);                   // including the byte that is read past the end
  for (int y = first; y < last; ++y) {
    std::copy_n(image.pixels.data() + y * width, width, row.data());
    BlendColumns(row.data(), columns.taps.data(), target.width, columns.weights.data(),
                 narrow.data() + (y - first) * stride);
  }
  RgbImage out = MakeImage(target);
  for (int y = 0; y < target.height; ++y) {
    const Taps& taps = rows.taps[y];
    BlendRows(narrow.data() + (taps.first - first) * stride, static_cast<int64_t>(stride), taps.count,
              rows.weights_of(taps), out.pixels.data() + y * stride);
  }
  return out;
}

RgbImage ResizeImage(const RgbImage& image, const ImageSize& target) {
  if (target == image.size) return image;
  if (target.height <= image.size.height && target.width <= image.size.width)
    return AverageArea(image, target);
  return ResizeBilinear(image, InEighths({0, 0, image.size.height, image.size.width}), target);
}

ImageSize ScaledSize(const ImageSize& size, int64_t over, int64_t under) {
  const auto scaled = [&](int64_t side) {
    return static_cast<int>(std::max<int64_t>(1, (2 * side * over + under) / (2 * under)));
  };
  return {scaled(size.height), scaled(size.width)};
}

ImageSize FitInto(const ImageSize& size, int short_side, int max_side) {
  const int64_t shorter = std::min(size.height, size.width), longer = std::max(size.height, size.width);
  // The smaller of the scales short_side / shorter and max_side / longer, as a fraction of at most 1.
  int64_t over = 1, under = 1;
  const auto shrink = [&](int64_t limit, int64_t side) {
    if (limit > 0 && limit * under < over * side) over = limit, under = side;
  };
  shrink(short_side, shorter);
  shrink(max_side, longer);
  return ScaledSize(size, over, under);
}

}  // namespace mtrun::datasets
