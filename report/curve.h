// Series of very many points made short enough to draw. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "report/run_record.h"

namespace mtrun::report {

/// Neighbouring steps as one point.
struct CurvePoint {
  int64_t step = 0;  // the last one
  double mean = 0, low = 0, high = 0;
  bool operator==(const CurvePoint&) const = default;
};

inline constexpr size_t kMostPoints = 800;

/// At most `most` points, each of as many steps. Values that are not finite are left out, a point without
/// others too.
std::vector<CurvePoint> Thin(const std::vector<StepPoint>& steps,
                             const std::function<double(const StepPoint&)>& value, size_t most = kMostPoints);
/// Images a second, over the time of as many steps a point.
std::vector<CurvePoint> Throughput(const std::vector<StepPoint>& steps, size_t most = kMostPoints / 4);

}  // namespace mtrun::report
