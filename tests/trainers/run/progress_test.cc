#include "trainers/run/progress.h"

#include <chrono>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kStart{std::chrono::hours(1)};

TEST(Progress, TheLineSaysWhereTheRunIs) {
  const ProgressState state{.epoch = 2,
                            .epochs = 10,
                            .step = 1234,
                            .steps = 31250,
                            .loss = 1.23456,
                            .learning_rate = 0.001,
                            .images_per_second = 8612.4,
                            .seconds_left = 125};
  EXPECT_EQ(ToText(state), "epoch 2/10  step 1234/31250  loss 1.2346  lr 0.001  8612 images/s  " +
                               HumanDuration(seconds(125)) + " left");
}

TEST(Progress, TheLastStepHasNothingLeft) {
  EXPECT_EQ(ToText(ProgressState{.step = 5, .steps = 5}).find("left"), std::string::npos);
}

TEST(ProgressPacer, OutsideATerminalALineNowAndThen) {
  ProgressPacer pacer(/*terminal=*/false, /*log_every=*/0, kStart);
  EXPECT_FALSE(pacer.Due(1, kStart + milliseconds(999)));
  EXPECT_TRUE(pacer.Due(2, kStart + seconds(1)));
  EXPECT_FALSE(pacer.Due(3, kStart + milliseconds(5999)));
  EXPECT_TRUE(pacer.Due(4, kStart + seconds(6)));
}

TEST(ProgressPacer, OnATerminalFiveTimesASecond) {
  ProgressPacer pacer(/*terminal=*/true, /*log_every=*/0, kStart);
  EXPECT_TRUE(pacer.Due(1, kStart));
  EXPECT_FALSE(pacer.Due(2, kStart + milliseconds(199)));
  EXPECT_TRUE(pacer.Due(3, kStart + milliseconds(200)));
}

TEST(ProgressPacer, LogEveryCountsSteps) {
  ProgressPacer pacer(/*terminal=*/false, /*log_every=*/512, kStart);
  EXPECT_FALSE(pacer.Due(511, kStart + seconds(100)));
  EXPECT_TRUE(pacer.Due(512, kStart));
  EXPECT_TRUE(pacer.Due(1024, kStart));
}

}  // namespace
}  // namespace mtrun::trainers
