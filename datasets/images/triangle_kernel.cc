#include "datasets/images/triangle_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace mtrun::datasets {
namespace {

/// Appends the weights of one position, rounded so that they add up to 2^kShortWeightBits. REQUIRES: `sums`
/// add up to about 2^(kWeightBits + 2), none is negative.
void AppendRounded(const std::vector<int64_t>& sums, int first, ShortKernel& kernel) {
  constexpr int kShift = kWeightBits + 2 - kShortWeightBits;
  kernel.taps.push_back({first, static_cast<int>(sums.size()), static_cast<int64_t>(kernel.weights.size())});
  int64_t rest = 1 << kShortWeightBits;
  for (const int64_t sum : sums) {
    const int64_t weight = (sum + (1 << (kShift - 1))) >> kShift;
    kernel.weights.push_back(static_cast<int16_t>(std::min<int64_t>(weight, INT16_MAX)));
    rest -= weight;
  }
  int16_t& largest =
      *std::max_element(kernel.weights.end() - static_cast<int64_t>(sums.size()), kernel.weights.end());
  largest = static_cast<int16_t>(std::min<int64_t>(largest + rest, INT16_MAX));
}

}  // namespace

// The weight of source pixel x for output pixel i is a triangle function of the distance of their centres. In
// units of 1 / (2 to 8) pixel, the centre of x is at (2 x + 1) 8 to, that of i at 2 to begin + (2 i + 1)
// length; the triangle extends 2 max(length, 8 to) to each side.
Kernel TriangleKernel(int64_t begin, int64_t length, int64_t to) {
  const int64_t lowest = begin / 8, limit = (begin + length + 7) / 8, unit = 16 * to;  // one pixel
  const int64_t reach = 2 * std::max(length, 8 * to);
  Kernel kernel;
  kernel.taps.reserve(static_cast<size_t>(to));
  std::vector<int64_t> heights;
  for (int64_t i = 0; i < to; ++i) {
    const int64_t middle = 2 * to * begin + (2 * i + 1) * length;
    const int64_t first = std::max(lowest, (middle - reach) / unit - 1);
    const int64_t last = std::min(limit, (middle + reach) / unit + 2);
    heights.clear();
    Taps taps{
        .first = static_cast<int>(first), .count = 0, .at = static_cast<int64_t>(kernel.weights.size())};
    for (int64_t x = first; x < last; ++x) {
      const int64_t height = reach - std::abs((2 * x + 1) * (unit / 2) - middle);
      if (height > 0) {
        heights.push_back(height);
      } else if (heights.empty()) {
        ++taps.first;
      }
    }
    const int64_t sum = std::accumulate(heights.begin(), heights.end(), int64_t{0});
    for (const int64_t height : heights)
      kernel.weights.push_back(static_cast<int32_t>(((height << (kWeightBits + 1)) / sum + 1) / 2));
    taps.count = static_cast<int>(heights.size());
    kernel.taps.push_back(taps);
  }
  return kernel;
}

ShortKernel Compose(const Kernel& kernel, const Doubling& doubling) {
  ShortKernel composed;
  composed.taps.reserve(kernel.taps.size());
  composed.weights.reserve(kernel.weights.size() + kernel.taps.size());
  composed.first = INT32_MAX;
  std::vector<int64_t> sums;
  for (const Taps& taps : kernel.taps) {
    const int32_t* weights = kernel.weights_of(taps);
    const int end = taps.first + taps.count;
    int first = taps.first, last = end;
    if (doubling.doubled) {
      first = std::max(0, (taps.first - 1) / 2);
      last = std::min(doubling.stored, end / 2 + 1);
    }
    sums.assign(static_cast<size_t>(last - first), 0);
    for (int x = taps.first; x < end; ++x) {
      const int64_t weight = weights[x - taps.first];
      const int nearer = doubling.doubled ? x / 2 : x;
      sums[nearer - first] += doubling.smooth ? 3 * weight : 4 * weight;
      if (!doubling.smooth) continue;
      const int next = std::clamp(nearer + (x % 2 == 0 ? -1 : 1), 0, doubling.stored - 1);
      sums[next - first] += weight;
    }
    AppendRounded(sums, first, composed);
    composed.first = std::min(composed.first, first);
    composed.last = std::max(composed.last, last);
    composed.most = std::max(composed.most, last - first);
  }
  return composed;
}

}  // namespace mtrun::datasets
