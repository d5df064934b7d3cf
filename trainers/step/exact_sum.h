// A sum of doubles whose bits do not depend on the order: 128-bit fixed point. A value; independent of
// LibTorch.
#pragma once

#include <cstdint>

namespace mtrun::trainers {

/// Holds multiples of 2^-80 up to 1.4e14. A number is rounded to the nearest multiple, which changes none of
/// 4e-9 or more, and then added exactly. Numbers above 1.3e11, infinities and NaN are remembered as such.
class ExactSum {
 public:
  ExactSum() = default;
  explicit ExactSum(double value) { Add(value); }

  void Add(double value);
  ExactSum& operator+=(const ExactSum& other);
  /// Returns the nearest double: NaN if a NaN was added, or infinities of both signs; an infinity if one was
  /// added, or if the sum or a number is too large.
  double value() const;

  bool operator==(const ExactSum&) const = default;

 private:
  __extension__ using Int128 = __int128;
  enum : uint64_t { kNan = 1, kPositive = 2, kNegative = 4 };
  static ExactSum Of(Int128 multiples);
  Int128 multiples() const;

  // Two words, so that records have no padding.
  uint64_t low_ = 0;
  int64_t high_ = 0;
  uint64_t special_ = 0;  // which of the above were added
};

}  // namespace mtrun::trainers
