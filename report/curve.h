// Reduces series of very many points to a drawable size. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "report/run_record.h"

namespace mtrun::report {

/// Several consecutive steps as one point.
struct CurvePoint {
  int64_t step = 0;  // the last step
  double mean = 0, low = 0, high = 0;
  bool operator==(const CurvePoint&) const = default;
};

inline constexpr size_t kMaxPoints = 800;

/// Returns at most `most` points, each of equally many steps. Ignores values that are not finite, and points
/// with no others.
std::vector<CurvePoint> Thin(const std::vector<StepPoint>& steps,
                             const std::function<double(const StepPoint&)>& value, size_t most = kMaxPoints);
/// Returns images per second, each point over the time of equally many steps.
std::vector<CurvePoint> Throughput(const std::vector<StepPoint>& steps, size_t most = kMaxPoints / 4);

}  // namespace mtrun::report
