#include "launcher/observe/worker_steps.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

constexpr TimePoint kNow{};

TimePoint At(int ms) { return kNow + std::chrono::milliseconds(ms); }

rendezvous::WorkerUse UseOf(const WorkerSteps& steps, TimePoint now) {
  rendezvous::WorkerUse use;
  steps.Fill(0, now, &use);
  return use;
}

TEST(WorkerStepsTest, StepTimeIsTheTimeBetweenReports) {
  WorkerSteps steps;
  EXPECT_EQ(UseOf(steps, kNow).step, -1);
  steps.OnProgress(0, {.step = 1, .samples = 32}, At(0));
  EXPECT_EQ(UseOf(steps, At(0)).step_time, Duration::zero());
  steps.OnProgress(0, {.step = 5, .samples = 160}, At(400));
  const auto use = UseOf(steps, At(450));
  EXPECT_EQ(use.step, 5);
  EXPECT_EQ(use.samples, 160);
  EXPECT_EQ(use.step_time, std::chrono::milliseconds(100));
  EXPECT_EQ(use.quiet, std::chrono::milliseconds(50));
}

TEST(WorkerStepsTest, OldReportsAreIgnoredExceptTheLastTwo) {
  WorkerSteps steps;
  for (int i = 0; i <= 100; ++i) steps.OnProgress(0, {.step = i}, At(1000 * i));
  steps.OnProgress(0, {.step = 101}, At(100'500));
  EXPECT_LT(UseOf(steps, At(100'500)).step_time, std::chrono::seconds(1));
  steps.OnProgress(0, {.step = 102}, At(200'000));
  EXPECT_EQ(UseOf(steps, At(200'000)).step_time, std::chrono::milliseconds(99'500));
}

TEST(WorkerStepsTest, RepeatedStepsResetTheStepTime) {
  WorkerSteps steps;
  steps.OnProgress(0, {.step = 10}, At(0));
  steps.OnProgress(0, {.step = 20}, At(100));
  steps.OnProgress(0, {.step = 12}, At(5000));
  EXPECT_EQ(UseOf(steps, At(5000)).step, 12);
  EXPECT_EQ(UseOf(steps, At(5000)).step_time, Duration::zero());
  steps.OnStarted(0);
  EXPECT_EQ(UseOf(steps, At(5000)).step, -1);
}

TEST(WorkerStepsTest, WaitTimesAreReportedByTheWorker) {
  WorkerSteps steps;
  steps.OnProgress(0, {.step = 1}, At(0));
  steps.OnTimes(0, {.step = 1, .data_seconds = 0.25, .exchange_seconds = -1});
  EXPECT_EQ(UseOf(steps, At(0)).data_wait, std::chrono::milliseconds(250));
  EXPECT_EQ(UseOf(steps, At(0)).exchange_wait, Duration::zero());
}

TEST(WorkerStepsTest, LossAndLearningRateAreReportedByTheWorker) {
  WorkerSteps steps;
  steps.OnProgress(0, {.step = 1}, At(0));
  EXPECT_EQ(UseOf(steps, At(0)).loss, std::nullopt);
  steps.OnTimes(0, {.step = 1, .loss = 2.5, .learning_rate = 0.1});
  EXPECT_EQ(UseOf(steps, At(0)).loss, 2.5);
  EXPECT_EQ(UseOf(steps, At(0)).learning_rate, 0.1);
}

TEST(WorkerStepsTest, WhatAWorkerSaysOfItsRunIsLimited) {
  WorkerSteps steps;
  steps.OnProgress(0, {.step = 1}, At(0));
  steps.OnTimes(0,
                {.step = 1, .accuracy = 0.5, .epoch = 2, .epochs = 10, .total_steps = 400, .run = "cnnA-2"});
  const auto use = UseOf(steps, At(0));
  EXPECT_EQ(use.accuracy, 0.5);
  EXPECT_EQ(use.epoch, 2);
  EXPECT_EQ(use.epochs, 10);
  EXPECT_EQ(use.total_steps, 400);
  EXPECT_EQ(use.run, "cnnA-2");
  steps.OnTimes(0, {.epoch = -1, .epochs = INT64_MAX, .total_steps = INT64_MIN, .run = "a\x1b[2Jb"});
  EXPECT_EQ(UseOf(steps, At(0)).epoch, 0);
  EXPECT_EQ(UseOf(steps, At(0)).epochs, int64_t{1} << 53);
  EXPECT_EQ(UseOf(steps, At(0)).total_steps, 0);
  EXPECT_EQ(UseOf(steps, At(0)).run, "a\\x1b[2Jb");
  steps.OnTimes(0, {.run = std::string(rendezvous::kMaxName + 1, 'x')});
  EXPECT_EQ(UseOf(steps, At(0)).run, "");
}

}  // namespace
}  // namespace mtrun::launcher
