#include "trainers/step/refused_sums.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

bool AreSame(double first, double second) {
  // The order of additions differs with the workers, in half precision by more than rounding in float32.
  constexpr double kSame = 1e-2;
  // A step that overflows does so again, to an infinity or to no number.
  if (!std::isfinite(first) || !std::isfinite(second)) return std::isfinite(first) == std::isfinite(second);
  return std::abs(first - second) <= kSame * std::abs(second);
}

}  // namespace

std::string RefusedSums::Settle(int64_t step, double total) {
  const int64_t refused = std::exchange(step_, -1);
  if (refused != step || AreSame(total_, total)) return "";
  return absl::StrCat("step ", step, ": a device that was aborted had left ", total_, " instead of ", total,
                      " in its sums; they were not applied");
}

}  // namespace mtrun::trainers
