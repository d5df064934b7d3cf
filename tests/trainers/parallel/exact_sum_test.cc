#include "trainers/parallel/exact_sum.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/splitmix.h"

namespace mtrun::trainers {
namespace {

/// As a reduction adds them up, in its dtype.
template <typename Real>
uint64_t SumThrough(const std::vector<uint64_t>& values) {
  std::array<Real, kLimbs> sums = {};
  for (const uint64_t value : values) {
    const Limbs limbs = ToLimbs(value);
    for (int i = 0; i < kLimbs; ++i) sums[i] += static_cast<Real>(limbs[i]);
  }
  return FromLimbs(std::vector<double>(sums.begin(), sums.end()));
}

TEST(ExactSum, OneValueComesBack) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{2047}, uint64_t{2048}, ~uint64_t{0},
                               uint64_t{1} << 63, uint64_t{0x0123456789abcdef}}) {
    EXPECT_EQ(SumThrough<float>({value}), value);
    EXPECT_EQ(SumThrough<double>({value}), value);
  }
}

TEST(ExactSum, ManyValuesWrapAroundAsIntegersDo) {
  for (const size_t summands : {2, 3, 1000, 8192}) {
    std::vector<uint64_t> random, largest(summands, ~uint64_t{0});
    uint64_t sum = 0;
    for (size_t i = 0; i < summands; ++i) sum += random.emplace_back(SplitMix64(i));
    EXPECT_EQ(SumThrough<float>(random), sum);
    EXPECT_EQ(SumThrough<double>(random), sum);
    EXPECT_EQ(SumThrough<float>(largest), ~uint64_t{0} * summands);
  }
}

}  // namespace
}  // namespace mtrun::trainers
