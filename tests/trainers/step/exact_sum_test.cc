#include "trainers/step/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace mtrun::trainers {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double ExactSumOf(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.Add(value);
  return sum.value();
}

TEST(ExactSumTest, OneNumberIsItself) {
  for (const double value : {0.0, 1.0, -2.5, 0.1, 1e-7, 123456.789, 1e11, -1e11, 4e-9})
    EXPECT_EQ(ExactSum(value).value(), value);
  EXPECT_EQ(ExactSum(0x1p-80).value(), 0x1p-80);
  EXPECT_EQ(ExactSum(0x1p-82).value(), 0) << "less than half of a multiple";
  EXPECT_EQ(ExactSum().value(), 0);
}

TEST(ExactSumTest, SumsAreExactWhereDoublesRound) {
  EXPECT_EQ(ExactSumOf({1e10, 1e-10, -1e10}), ExactSumOf({1e-10}));
  EXPECT_EQ(ExactSumOf({0.1, 0.2, 0.3, -0.3, -0.2, -0.1}), 0);
  EXPECT_NE(0.1 + 0.2 + 0.3 - 0.3 - 0.2 - 0.1, 0) << "doubles would have been as good";
}

TEST(ExactSumTest, OrderAndSharesDoNotMatter) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + random() % 300);
    for (double& value : values)
      value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                         -static_cast<int>(30 + random() % 60));
    const double sum = ExactSumOf(values);
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(ExactSumOf(values), sum);
    ExactSum first, second;
    const size_t cut = random() % values.size();
    for (size_t i = 0; i < values.size(); ++i) (i < cut ? first : second).Add(values[i]);
    ExactSum swapped = second;
    swapped += first;
    first += second;
    EXPECT_EQ(first, swapped);
    EXPECT_EQ(first.value(), sum);
    EXPECT_NEAR(sum, std::accumulate(values.begin(), values.end(), 0.0), 1e-9 * std::abs(sum) + 1e-6);
  }
}

TEST(ExactSumTest, NanAndInfinityStay) {
  EXPECT_TRUE(std::isnan(ExactSumOf({1, kNan, 2})));
  EXPECT_EQ(ExactSumOf({1, kInfinity, 2}), kInfinity);
  EXPECT_EQ(ExactSumOf({-kInfinity, 5}), -kInfinity);
  EXPECT_TRUE(std::isnan(ExactSumOf({-kInfinity, kInfinity})));
  ExactSum sum(1);
  sum += ExactSum(kNan);
  EXPECT_TRUE(std::isnan(sum.value()));
}

TEST(ExactSumTest, WhatIsTooLargeIsInfinite) {
  EXPECT_EQ(ExactSum(1e12).value(), kInfinity);
  EXPECT_EQ(ExactSum(-1e300).value(), -kInfinity);
  EXPECT_EQ(ExactSumOf(std::vector<double>(1000, 1e11)), 1e14) << "a thousand of the largest fit";
  EXPECT_EQ(ExactSumOf(std::vector<double>(2000, 1e11)), kInfinity);
  EXPECT_EQ(ExactSumOf(std::vector<double>(2000, -1e11)), -kInfinity);
}

}  // namespace
}  // namespace mtrun::trainers
