#include "trainers/run/progress.h"

#include <chrono>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kStart{std::chrono::hours(1)};

TEST(Screen, IsATerminalOrMtrunsOrAPipe) {
  EXPECT_EQ(ScreenOf({}, /*terminal=*/false), Screen{});
  EXPECT_EQ(ScreenOf({}, true), (Screen{Screen::Kind::kTerminal, 0, true}));
  EXPECT_EQ(ScreenOf({{"NO_COLOR", "1"}}, true), (Screen{Screen::Kind::kTerminal, 0, false}));
  EXPECT_EQ(ScreenOf({{"TERM", "dumb"}}, true), Screen{}) << "it cannot erase a line";
  EXPECT_EQ(ScreenOf({{"MTRUN_COLUMNS", "69"}}, false), (Screen{Screen::Kind::kLauncher, 69, true}));
  EXPECT_EQ(ScreenOf({{"MTRUN_COLUMNS", "x"}}, false), Screen{});
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
