#include "trainers/parallel/exact_sum.h"

#include "base/status_macros.h"

namespace mtrun::trainers {

Limbs ToLimbs(uint64_t value) {
  Limbs limbs;
  for (double& limb : limbs) {
    limb = static_cast<double>(value & ((uint64_t{1} << kLimbBits) - 1));
    value >>= kLimbBits;
  }
  return limbs;
}

uint64_t FromLimbs(absl::Span<const double> sums) {
  MT_CHECK(sums.size() == kLimbs) << sums.size() << " limbs";
  uint64_t value = 0;
  for (int i = 0; i < kLimbs; ++i) value += static_cast<uint64_t>(sums[i]) << (kLimbBits * i);
  return value;
}

}  // namespace mtrun::trainers
