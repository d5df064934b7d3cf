#include "trainers/optim/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ScheduleKind = LrSchedule::Kind;

TEST(LrSchedule, ConstantStaysConstant) {
  const LrSchedule schedule{.kind = ScheduleKind::kConstant, .base = 0.3, .steps = 10};
  for (const int64_t step : {0, 5, 9, 10, 1000}) EXPECT_EQ(LearningRate(schedule, step), 0.3);
}

TEST(LrSchedule, CosineEndsAtZeroAndStaysThere) {
  const LrSchedule schedule{.kind = ScheduleKind::kCosine, .base = 0.2, .steps = 40};
  EXPECT_EQ(LearningRate(schedule, 0), 0.2);
  EXPECT_NEAR(LearningRate(schedule, 20), 0.1, 1e-12);
  EXPECT_NEAR(LearningRate(schedule, 40), 0, 1e-12);
  EXPECT_EQ(LearningRate(schedule, 400), LearningRate(schedule, 40));
}

TEST(LrSchedule, WarmUpIsLinearFromATenth) {
  const LrSchedule schedule{.kind = ScheduleKind::kConstant, .base = 1, .steps = 100, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 5), 0.55);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 10), 1);
}

TEST(LrSchedule, LinearRisesThenFallsToNothing) {
  const LrSchedule schedule{
      .kind = *ParseLrScheduleKind("linear"), .base = 0.5, .steps = 160, .warmup_steps = 20};
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 0), 0.05);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 20), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 90), 0.25);
  EXPECT_DOUBLE_EQ(LearningRate(schedule, 160), 0);
  EXPECT_EQ(LearningRate(schedule, 1000), 0);
}

TEST(LrSchedule, OneCycleRisesThenFalls) {
  const LrSchedule schedule{.kind = ScheduleKind::kOneCycle, .base = 0.1, .steps = 100};
  EXPECT_NEAR(LearningRate(schedule, 0), 0.1 / 25, 1e-12);
  for (int64_t k = 1; k < 29; ++k) EXPECT_GT(LearningRate(schedule, k), LearningRate(schedule, k - 1));
  for (int64_t k = 31; k <= 100; ++k) EXPECT_LT(LearningRate(schedule, k), LearningRate(schedule, k - 1));
  EXPECT_NEAR(LearningRate(schedule, 100), 0.1 / 25 / 1e4, 1e-12);
}

TEST(LrSchedule, TinyRunsStayFiniteAndPositive) {
  for (const ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kOneCycle}) {
    for (int64_t steps = 1; steps <= 5; ++steps) {
      for (const int64_t warmup : {0, 3, 9}) {
        const LrSchedule schedule{.kind = kind, .base = 0.1, .steps = steps, .warmup_steps = warmup};
        for (int64_t k = 0; k < steps; ++k) {
          const double rate = LearningRate(schedule, k);
          EXPECT_GT(rate, 0) << steps << " steps, warm-up " << warmup << ", step " << k;
          EXPECT_LE(rate, 0.1 + 1e-12) << steps << " steps, warm-up " << warmup << ", step " << k;
        }
      }
    }
  }
}

TEST(LrSchedule, ParsesItsNames) {
  EXPECT_EQ(*ParseLrScheduleKind("one_cycle"), ScheduleKind::kOneCycle);
  EXPECT_EQ(*ParseLrScheduleKind("cosine"), ScheduleKind::kCosine);
  EXPECT_EQ(*ParseLrScheduleKind("constant"), ScheduleKind::kConstant);
  for (const auto kind :
       {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kOneCycle, ScheduleKind::kLinear})
    EXPECT_EQ(*ParseLrScheduleKind(LrScheduleKindName(kind)), kind);
  EXPECT_THAT(std::string(ParseLrScheduleKind("cos").status().message()), ::testing::HasSubstr("cosine"));
}

}  // namespace
}  // namespace mtrun::trainers
