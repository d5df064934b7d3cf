#include "report/curve.h"

#include <algorithm>
#include <cmath>

namespace mtrun::report {
namespace {

/// Returns the number of steps per point.
size_t Stride(size_t points, size_t most) { return std::max<size_t>(1, (points + most - 1) / most); }

}  // namespace

std::vector<CurvePoint> Thin(const std::vector<StepPoint>& steps,
                             const std::function<double(const StepPoint&)>& value, size_t most) {
  std::vector<CurvePoint> curve;
  const size_t stride = Stride(steps.size(), most);
  for (size_t begin = 0; begin < steps.size(); begin += stride) {
    const size_t end = std::min(steps.size(), begin + stride);
    CurvePoint point{.step = steps[end - 1].step, .mean = 0, .low = 0, .high = 0};
    size_t count = 0;
    for (size_t i = begin; i < end; ++i) {
      const double y = value(steps[i]);
      if (!std::isfinite(y)) continue;
      point.low = count == 0 ? y : std::min(point.low, y);
      point.high = count == 0 ? y : std::max(point.high, y);
      point.mean += (y - point.mean) / static_cast<double>(++count);
    }
    if (count > 0) curve.push_back(point);
  }
  return curve;
}

std::vector<CurvePoint> Throughput(const std::vector<StepPoint>& steps, size_t most) {
  std::vector<CurvePoint> curve;
  const size_t stride = Stride(steps.size(), most);
  for (size_t begin = 0; begin < steps.size(); begin += stride) {
    const size_t end = std::min(steps.size(), begin + stride);
    double samples = 0, seconds = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!(steps[i].seconds > 0)) continue;
      samples += static_cast<double>(steps[i].samples);
      seconds += steps[i].seconds;
    }
    if (seconds <= 0) continue;
    const double rate = samples / seconds;
    curve.push_back({.step = steps[end - 1].step, .mean = rate, .low = rate, .high = rate});
  }
  return curve;
}

}  // namespace mtrun::report
