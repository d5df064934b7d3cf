#include "launcher/core/stop_ladder.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using Rung = StopLadder::Rung;

TimePoint StopAt(int second) { return TimePoint(std::chrono::seconds(second)); }

TEST(StopLadderTest, ClimbsFromTheSignalToGivingUp) {
  StopLadder stop;
  EXPECT_EQ(stop.At(StopAt(1000)), Rung::kWait) << "nothing has begun";
  stop.Begin(StopAt(30));
  EXPECT_EQ(stop.At(StopAt(29)), Rung::kWait);
  EXPECT_EQ(stop.At(StopAt(30)), Rung::kKill);
  EffectList out;
  stop.Kill(StopAt(30), &out);
  EXPECT_THAT(out.Take(), ElementsAre(Effect(SignalWorkers{SIGKILL})));
  EXPECT_EQ(stop.deadline(), StopAt(30) + StopLadder::kKillPatience);
  EXPECT_EQ(stop.At(StopAt(34)), Rung::kWait);
  EXPECT_EQ(stop.At(StopAt(35)), Rung::kGiveUp);
  stop.Finish();
  EXPECT_EQ(stop.At(StopAt(1000)), Rung::kWait);
  stop.Begin(StopAt(60));
  EXPECT_EQ(stop.At(StopAt(60)), Rung::kKill) << "the next stop begins at the bottom";
}

TEST(StopLadderTest, NewDeadlineKeepsTheRung) {
  StopLadder stop;
  stop.Begin(StopAt(30));
  stop.SetDeadline(StopAt(10));
  EXPECT_EQ(stop.At(StopAt(10)), Rung::kKill);
}

TEST(StopLadderTest, Text) {
  StopLadder stop;
  EXPECT_EQ(stop.Describe(), "awaits the service");
  stop.next = StopLadder::Next::kExit;
  stop.exit = Exit{143, std::nullopt};
  stop.Begin(StopAt(30));
  EXPECT_EQ(stop.Describe(), "exits with 143; signalled");
}

}  // namespace
}  // namespace mtrun::launcher
