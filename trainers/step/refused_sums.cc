#include "trainers/step/refused_sums.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {

std::string RefusedSums::Settle(int64_t step, double total) {
  // The order of additions differs with the workers, in half precision by more than rounding in float32.
  constexpr double kSame = 1e-2;
  const int64_t refused = std::exchange(step_, -1);
  if (refused != step || std::abs(total_ - total) <= kSame * std::abs(total)) return "";
  return absl::StrCat("step ", step, ": a device that was aborted had left ", total_, " instead of ", total,
                      " in its sums; they were not applied");
}

}  // namespace mtrun::trainers
