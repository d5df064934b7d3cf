#include "trainers/step/exact_sum.h"

#include <cmath>
#include <limits>

namespace mtrun::trainers {
namespace {

constexpr int kFractionBits = 80;
constexpr double kMostAdded = 137438953472.0;  // 2^37: a thousand of them fit

}  // namespace

ExactSum ExactSum::Of(Int128 multiples) {
  ExactSum sum;
  sum.low_ = static_cast<uint64_t>(multiples);
  sum.high_ = static_cast<int64_t>(multiples >> 64);
  return sum;
}

ExactSum::Int128 ExactSum::multiples() const { return (static_cast<Int128>(high_) << 64) | low_; }

void ExactSum::Add(double value) {
  if (std::isnan(value)) {
    special_ |= kNan;
  } else if (std::abs(value) >= kMostAdded) {
    special_ |= value > 0 ? kPositive : kNegative;
  } else {
    const double whole = std::trunc(value);
    const double rest = std::nearbyint(std::ldexp(value - whole, kFractionBits));
    *this += Of((static_cast<Int128>(whole) * (Int128{1} << kFractionBits)) + static_cast<Int128>(rest));
  }
}

ExactSum& ExactSum::operator+=(const ExactSum& other) {
  const uint64_t special = special_ | other.special_;
  Int128 added = 0;
  if (__builtin_add_overflow(multiples(), other.multiples(), &added)) {
    special_ = special | (other.high_ < 0 ? kNegative : kPositive);
    return *this;
  }
  *this = Of(added);
  special_ = special;
  return *this;
}

double ExactSum::value() const {
  const bool both = (special_ & kPositive) != 0 && (special_ & kNegative) != 0;
  if ((special_ & kNan) != 0 || both) return std::numeric_limits<double>::quiet_NaN();
  if (special_ != 0)
    return (special_ & kPositive) != 0 ? std::numeric_limits<double>::infinity()
                                       : -std::numeric_limits<double>::infinity();
  return std::ldexp(static_cast<double>(multiples()), -kFractionBits);
}

}  // namespace mtrun::trainers
