#include "launcher/workers/record_ladder.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using enum RecordLadder::Rung;

TEST(RecordLadderTest, EachRungOccursOnceAndTheReportComesLast) {
  RecordLadder ladder(std::chrono::seconds(5));
  const auto at = [](int seconds) { return TimePoint() + std::chrono::seconds(seconds); };
  EXPECT_FALSE(ladder.deadline());
  EXPECT_EQ(ladder.At(at(100)), kWait);
  EXPECT_EQ(ladder.deadline(), at(105));
  EXPECT_EQ(ladder.At(at(104)), kWait);
  EXPECT_EQ(ladder.At(at(105)), kTerminate);
  EXPECT_EQ(ladder.At(at(106)), kWait);
  EXPECT_EQ(ladder.At(at(111)), kKill) << "late";
  EXPECT_EQ(ladder.At(at(115)), kWait);
  EXPECT_EQ(ladder.At(at(116)), kReport) << "a worker that cannot be killed held the report back for ever";
  EXPECT_EQ(ladder.At(at(116)), kReport);
  EXPECT_FALSE(ladder.deadline());
}

}  // namespace
}  // namespace mtrun::launcher
