#include "trainers/step/exact_sum.h"

#include <cmath>
#include <limits>

namespace mtrun::trainers {
namespace {

constexpr int kFineBits = 80, kCoarseBits = 12;  // 2^-80 and 2^12 are the units
constexpr double kTooLarge = 0x1p127;

}  // namespace

void ExactSum::Words::Set(Int128 value) {
  low = static_cast<uint64_t>(value);
  high = static_cast<int64_t>(value >> 64);
}

ExactSum::Int128 ExactSum::Words::value() const { return (static_cast<Int128>(high) << 64) | low; }

void ExactSum::AddParts(Int128 coarse, Int128 fine) {
  constexpr Int128 kOne = Int128{1} << (kFineBits + kCoarseBits);  // a coarse unit
  fine += fine_.value();
  const Int128 carry = fine >= kOne ? 1 : fine < 0 ? -1 : 0;
  fine_.Set(fine - carry * kOne);
  Int128 sum = 0;
  if (__builtin_add_overflow(coarse_.value(), coarse + carry, &sum))
    special_ |= coarse < 0 ? kNegative : kPositive;
  coarse_.Set(sum);
}

void ExactSum::Add(double value) {
  const double size = std::abs(value);
  if (std::isnan(value)) {
    special_ |= kNan;
  } else if (size >= kTooLarge) {
    special_ |= value > 0 ? kPositive : kNegative;
  } else {
    const double coarse = std::floor(std::ldexp(size, -kCoarseBits));
    const double rest = size - std::ldexp(coarse, kCoarseBits);  // exact
    const auto fine = static_cast<Int128>(std::nearbyint(std::ldexp(rest, kFineBits)));
    const Int128 sign = value < 0 ? -1 : 1;
    AddParts(sign * static_cast<Int128>(coarse), sign * fine);
  }
}

ExactSum& ExactSum::operator+=(const ExactSum& other) {
  AddParts(other.coarse_.value(), other.fine_.value());
  special_ |= other.special_;
  return *this;
}

double ExactSum::value() const {
  const bool both = (special_ & kPositive) != 0 && (special_ & kNegative) != 0;
  if ((special_ & kNan) != 0 || both) return std::numeric_limits<double>::quiet_NaN();
  if (special_ != 0)
    return (special_ & kPositive) != 0 ? std::numeric_limits<double>::infinity()
                                       : -std::numeric_limits<double>::infinity();
  if (coarse_.high < 0) {
    ExactSum opposite;
    opposite.AddParts(-coarse_.value(), -fine_.value());
    return -opposite.value();
  }
  return std::ldexp(static_cast<double>(coarse_.value()), kCoarseBits) +
         std::ldexp(static_cast<double>(fine_.value()), -kFineBits);
}

}  // namespace mtrun::trainers
