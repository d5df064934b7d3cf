#include "trainers/run/records/progress.h"

#include <chrono>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kProgressStart{std::chrono::hours(1)};

TEST(Screen, IsATerminalOrMtrunOrAPipe) {
  EXPECT_EQ(ScreenOf({}, /*terminal=*/false), Screen{});
  EXPECT_EQ(ScreenOf({}, true), (Screen{Screen::Kind::kTerminal, 0, true}));
  EXPECT_EQ(ScreenOf({{"NO_COLOR", "1"}}, true), (Screen{Screen::Kind::kTerminal, 0, false}));
  EXPECT_EQ(ScreenOf({{"TERM", "dumb"}}, true), Screen{}) << "it cannot erase a line";
  EXPECT_EQ(ScreenOf({{"MTRUN_COLUMNS", "69"}}, false), (Screen{Screen::Kind::kLauncher, 69, true}));
  EXPECT_EQ(ScreenOf({{"MTRUN_COLUMNS", "x"}}, false), Screen{});
}

TEST(ProgressLine, BlankLineUnderMtrunDoesNotEndTheKeptLine) {
  testing::internal::CaptureStdout();
  {
    ProgressLine line(/*quiet=*/false, {Screen::Kind::kLauncher, 60, false});
    line.Print("\nbegins\n");
    line.Show("step 1");
    line.Print("\nresults\n");
    line.Print("more\n");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "\nbegins\nstep 1\r\r\nresults\nstep 1\rmore\nstep 1\r\r");
}

TEST(ProgressPacer, PrintsOccasionalLinesOutsideATerminal) {
  ProgressPacer pacer(/*terminal=*/false, /*log_every=*/0, kProgressStart);
  EXPECT_FALSE(pacer.Due(1, kProgressStart + milliseconds(999)));
  EXPECT_TRUE(pacer.Due(2, kProgressStart + seconds(1)));
  EXPECT_FALSE(pacer.Due(3, kProgressStart + milliseconds(5999)));
  EXPECT_TRUE(pacer.Due(4, kProgressStart + seconds(6)));
}

TEST(ProgressPacer, UpdatesATerminalFiveTimesASecond) {
  ProgressPacer pacer(/*terminal=*/true, /*log_every=*/0, kProgressStart);
  EXPECT_TRUE(pacer.Due(1, kProgressStart));
  EXPECT_FALSE(pacer.Due(2, kProgressStart + milliseconds(199)));
  EXPECT_TRUE(pacer.Due(3, kProgressStart + milliseconds(200)));
}

TEST(ProgressPacer, LogEveryCountsSteps) {
  ProgressPacer pacer(/*terminal=*/false, /*log_every=*/512, kProgressStart);
  EXPECT_FALSE(pacer.Due(511, kProgressStart + seconds(100)));
  EXPECT_TRUE(pacer.Due(512, kProgressStart));
  EXPECT_TRUE(pacer.Due(1024, kProgressStart));
}

}  // namespace
}  // namespace mtrun::trainers
