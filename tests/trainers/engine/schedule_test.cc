#include "trainers/engine/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::engine {
namespace {

using Kind = Schedule::Kind;

TEST(Schedule, ConstantStays) {
  const Schedule schedule{.kind = Kind::kConstant, .base = 0.3, .steps = 10};
  for (const int64_t step : {0, 5, 9, 10, 1000}) EXPECT_EQ(LearningRate(schedule, step), 0.3);
}

TEST(Schedule, CosineEndsAtZeroAndStaysThere) {
  const Schedule schedule{.kind = Kind::kCosine, .base = 0.2, .steps = 40};
  EXPECT_EQ(LearningRate(schedule, 0), 0.2);
  EXPECT_NEAR(LearningRate(schedule, 20), 0.1, 1e-12);
  EXPECT_NEAR(LearningRate(schedule, 40), 0, 1e-12);
  EXPECT_EQ(LearningRate(schedule, 400), LearningRate(schedule, 40));
}

TEST(Schedule, WarmUpIsLinearFromATenth) {
  const Schedule schedule{.kind = Kind::kConstant, .base = 1, .steps = 100, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 5), 0.55);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 10), 1);
}

TEST(Schedule, OneCycleRisesThenFalls) {
  const Schedule schedule{.kind = Kind::kOneCycle, .base = 0.1, .steps = 100};
  EXPECT_NEAR(LearningRate(schedule, 0), 0.1 / 25, 1e-12);
  for (int64_t k = 1; k < 29; ++k) EXPECT_GT(LearningRate(schedule, k), LearningRate(schedule, k - 1));
  for (int64_t k = 31; k <= 100; ++k) EXPECT_LT(LearningRate(schedule, k), LearningRate(schedule, k - 1));
  EXPECT_NEAR(LearningRate(schedule, 100), 0.1 / 25 / 1e4, 1e-12);
}

TEST(Schedule, TinyRunsStayFiniteAndPositive) {
  for (const Kind kind : {Kind::kConstant, Kind::kCosine, Kind::kOneCycle}) {
    for (int64_t steps = 1; steps <= 5; ++steps) {
      for (const int64_t warmup : {0, 3, 9}) {
        const Schedule schedule{.kind = kind, .base = 0.1, .steps = steps, .warmup_steps = warmup};
        for (int64_t k = 0; k < steps; ++k) {
          const double rate = LearningRate(schedule, k);
          EXPECT_GT(rate, 0) << steps << " steps, warm-up " << warmup << ", step " << k;
          EXPECT_LE(rate, 0.1 + 1e-12) << steps << " steps, warm-up " << warmup << ", step " << k;
        }
      }
    }
  }
}

TEST(Schedule, ParsesItsNames) {
  EXPECT_EQ(*ParseScheduleKind("one_cycle"), Kind::kOneCycle);
  EXPECT_EQ(*ParseScheduleKind("cosine"), Kind::kCosine);
  EXPECT_EQ(*ParseScheduleKind("constant"), Kind::kConstant);
  EXPECT_THAT(std::string(ParseScheduleKind("cos").status().message()), ::testing::HasSubstr("cosine"));
}

}  // namespace
}  // namespace mtrun::engine
