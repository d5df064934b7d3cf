#include "trainers/step/refused_sums.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

bool AreSame(double first, double second) {
  // The order of additions depends on the workers. In half precision, sums differ by more than float32
  // rounding.
  constexpr double kSame = 1e-2;
  // A step that overflows does so again, to infinity or NaN.
  if (!std::isfinite(first) || !std::isfinite(second)) return std::isfinite(first) == std::isfinite(second);
  return std::abs(first - second) <= kSame * std::abs(second);
}

}  // namespace

std::string RefusedSums::Settle(int64_t step, double total) {
  const int64_t refused = std::exchange(step_, -1);
  if (refused != step || AreSame(total_, total)) return "";
  return absl::StrCat("step ", step, ": an aborted device had left ", total_, " instead of ", total,
                      " in its sums, which were not applied");
}

}  // namespace mtrun::trainers
