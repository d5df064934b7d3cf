// A sum of doubles whose bits do not depend on the order, in fixed point. A value; independent of LibTorch.
#pragma once

#include <cstdint>

namespace mtrun::trainers {

/// Holds multiples of 2^-80 below about 2^139. A number is rounded to the nearest multiple, which changes none
/// of 4e-9 or more, and then added exactly. Numbers from 2^127 on, infinities and NaN are remembered as such.
class ExactSum {
 public:
  ExactSum() = default;
  explicit ExactSum(double value) { Add(value); }

  void Add(double value);
  ExactSum& operator+=(const ExactSum& other);
  /// Returns the sum as a double: NaN if a NaN was added, or infinities of both signs; an infinity if one was
  /// added, or if a number or the sum is too large.
  double value() const;

  bool operator==(const ExactSum&) const = default;

 private:
  __extension__ using Int128 = __int128;
  enum : uint64_t { kNan = 1, kPositive = 2, kNegative = 4 };
  /// An integer as two words, so that records have no padding.
  struct Words {
    uint64_t low = 0;
    int64_t high = 0;
    bool operator==(const Words&) const = default;
    void Set(Int128 value);
    Int128 value() const;
  };
  void AddParts(Int128 coarse, Int128 fine);

  // The sum is coarse_ * 2^12 + fine_ * 2^-80, where 0 <= fine_ < 2^92, so equal sums have equal bits.
  Words coarse_, fine_;
  uint64_t special_ = 0;  // which of the above were added
};

}  // namespace mtrun::trainers
