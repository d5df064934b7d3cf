#include "trainers/membership/step_times_mean.h"

#include "gtest/gtest.h"

namespace mtrun::trainers {
namespace {

using channel::StepTimes;

constexpr TimePoint kStart = TimePoint(std::chrono::hours(1));

TEST(StepTimesMean, NothingIsReportedWithoutAWatcher) {
  StepTimesMean mean;
  for (int step = 1; step < 100; ++step)
    EXPECT_FALSE(mean.Add({step, 0.1, 0.2}, false, kStart + std::chrono::seconds(step)));
}

TEST(StepTimesMean, MeanIsReportedEveryTwoSeconds) {
  StepTimesMean mean;
  EXPECT_FALSE(mean.Add({1, 8, 8}, false, kStart));
  EXPECT_EQ(mean.Add({2, 0.5, 0.25}, true, kStart), (StepTimes{2, 0.5, 0.25}));
  EXPECT_FALSE(mean.Add({3, 1, 2}, true, kStart + std::chrono::milliseconds(1999)));
  EXPECT_EQ(mean.Add({4, 3, 4}, true, kStart + StepTimesMean::kEvery), (StepTimes{4, 2, 3}));
}

TEST(StepTimesMean, LossIsTheMeanAndLearningRateTheLatest) {
  StepTimesMean mean;
  mean.Add({.step = 1, .loss = 4}, true, kStart);
  mean.Add({.step = 2, .loss = 3, .learning_rate = 0.5}, true, kStart);
  EXPECT_EQ(mean.Add({.step = 3, .loss = 2, .learning_rate = 0.25}, true, kStart + StepTimesMean::kEvery),
            (StepTimes{.step = 3, .loss = 2.5, .learning_rate = 0.25}));
}

TEST(StepTimesMean, AccuracyIsTheMeanAndTheRunTheLatest) {
  StepTimesMean mean;
  mean.Add({.step = 1}, true, kStart);
  mean.Add({.step = 2, .accuracy = 0.5, .epoch = 1, .epochs = 3, .total_steps = 30, .run = "r"}, true,
           kStart);
  const StepTimes last{.step = 3, .accuracy = 0.75, .epoch = 2, .epochs = 3, .total_steps = 30, .run = "r"};
  StepTimes want = last;
  want.accuracy = 0.625;
  EXPECT_EQ(mean.Add(last, true, kStart + StepTimesMean::kEvery), want);
}

}  // namespace
}  // namespace mtrun::trainers
