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

double SumOfExact(const std::vector<double>& values) {
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
  EXPECT_EQ(SumOfExact({1e10, 1e-10, -1e10}), SumOfExact({1e-10}));
  EXPECT_EQ(SumOfExact({0.1, 0.2, 0.3, -0.3, -0.2, -0.1}), 0);
  EXPECT_NE(0.1 + 0.2 + 0.3 - 0.3 - 0.2 - 0.1, 0) << "doubles would have been as good";
}

TEST(ExactSumTest, OrderAndSharesDoNotMatter) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + random() % 300);
    for (double& value : values)
      value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                         -static_cast<int>(30 + random() % 60));
    const double sum = SumOfExact(values);
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(SumOfExact(values), sum);
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
  EXPECT_TRUE(std::isnan(SumOfExact({1, kNan, 2})));
  EXPECT_EQ(SumOfExact({1, kInfinity, 2}), kInfinity);
  EXPECT_EQ(SumOfExact({-kInfinity, 5}), -kInfinity);
  EXPECT_TRUE(std::isnan(SumOfExact({-kInfinity, kInfinity})));
  ExactSum sum(1);
  sum += ExactSum(kNan);
  EXPECT_TRUE(std::isnan(sum.value()));
}

TEST(ExactSumTest, LossesOfADivergedNetworkAreFinite) {
  for (const double value : {1e12, -1e15, 3.4e38 / 4, 0x1p100 + 0x1p60})
    EXPECT_EQ(ExactSum(value).value(), value);
  EXPECT_EQ(SumOfExact({1e30, 1e-7, -1e30}), 1e-7) << "neither part is lost";
  EXPECT_EQ(SumOfExact(std::vector<double>(1000, 0x1p110)), 1000 * 0x1p110);
}

TEST(ExactSumTest, SignsAndCarries) {
  EXPECT_EQ(SumOfExact({4096, -1e-9}), 4096 - 1e-9);
  EXPECT_EQ(SumOfExact({-4096, 1e-9}), -4096 + 1e-9);
  EXPECT_EQ(SumOfExact({-5e-9}), -5e-9);
  EXPECT_EQ(SumOfExact({4095.5, 0.5, -4096}), 0);
  ExactSum down(5), up(-5);
  down.Add(-10);
  up.Add(10);
  EXPECT_EQ(down.value(), -5);
  down += up;
  EXPECT_EQ(down, ExactSum()) << "equal sums have equal bits";
}

TEST(ExactSumTest, WhatIsTooLargeIsInfinite) {
  EXPECT_EQ(ExactSum(0x1p127).value(), kInfinity);
  EXPECT_EQ(ExactSum(-1e300).value(), -kInfinity);
  EXPECT_EQ(SumOfExact(std::vector<double>(20'000, 0x1p126)), kInfinity);
  EXPECT_EQ(SumOfExact(std::vector<double>(20'000, -0x1p126)), -kInfinity);
}

}  // namespace
}  // namespace mtrun::trainers
