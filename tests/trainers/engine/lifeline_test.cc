#include "trainers/engine/lifeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace mtrun::engine {
namespace {

using channel::Generation;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

channel::Assignment AssignmentOf(uint64_t number) {
  channel::Assignment assignment;
  assignment.generation = {number, 7};
  return assignment;
}

/// What would wait for ever if the lifeline failed gives up instead.
TimePoint Soon() { return MonotonicNow() + std::chrono::seconds(10); }
TimePoint Now() { return MonotonicNow(); }

class LifelineTest : public ::testing::Test {
 protected:
  std::function<void(const std::string&)> Note() {
    return [this](const std::string& why) { breaks_.push_back(why); };
  }
  Lifeline lifeline_;
  std::vector<std::string> breaks_;
};

TEST_F(LifelineTest, EntersTheNewestAssignmentOnce) {
  EXPECT_EQ(lifeline_.Next(Now()).status().code(), absl::StatusCode::kDeadlineExceeded);
  lifeline_.Hear(AssignmentOf(1));
  lifeline_.Hear(AssignmentOf(2));
  const auto next = lifeline_.Next(Soon());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->generation.number, 2u);
  EXPECT_FALSE(lifeline_.IsOver());
  EXPECT_EQ(lifeline_.Next(Now()).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LifelineTest, WhatIsDissolvedBeforeItIsEnteredIsPassedOver) {
  lifeline_.Hear(AssignmentOf(1));
  lifeline_.Hear(channel::Dissolved{{1, 7}, "node2 is lost"});
  EXPECT_EQ(lifeline_.Next(Now()).status().code(), absl::StatusCode::kDeadlineExceeded);
  lifeline_.Hear(AssignmentOf(2));
  EXPECT_EQ(lifeline_.Next(Soon())->generation.number, 2u);
}

TEST_F(LifelineTest, ADissolvedGenerationBreaksItsGroupAndNoOther) {
  lifeline_.Hear(AssignmentOf(2));
  ASSERT_TRUE(lifeline_.Next(Soon()).ok());
  lifeline_.OnBreak(Note());
  lifeline_.Hear(channel::Dissolved{{1, 7}, "old news"});
  EXPECT_THAT(breaks_, IsEmpty());
  lifeline_.Hear(channel::Dissolved{{2, 7}, "node2 is lost"});
  EXPECT_THAT(breaks_, ElementsAre("node2 is lost"));
  EXPECT_TRUE(lifeline_.IsOver());
}

TEST_F(LifelineTest, ANewerAssignmentBreaksTheOldGroupToo) {
  lifeline_.Hear(AssignmentOf(1));
  ASSERT_TRUE(lifeline_.Next(Soon()).ok());
  lifeline_.OnBreak(Note());
  lifeline_.Hear(AssignmentOf(1));
  EXPECT_THAT(breaks_, IsEmpty()) << "the same one again confirms it";
  lifeline_.Hear(AssignmentOf(3));
  EXPECT_EQ(breaks_.size(), 1u);
  EXPECT_EQ(lifeline_.Next(Soon())->generation.number, 3u);
  EXPECT_FALSE(lifeline_.IsOver());
}

TEST_F(LifelineTest, AGentleEndBreaksNothingAndIsOverWithTheNextEntry) {
  lifeline_.Hear(AssignmentOf(1));
  ASSERT_TRUE(lifeline_.Next(Soon()).ok());
  lifeline_.OnBreak(Note());
  EXPECT_FALSE(lifeline_.wants_regroup());
  lifeline_.Hear(channel::Dissolved{{1, 7}, "node2 joins", /*gentle=*/true});
  EXPECT_TRUE(lifeline_.wants_regroup());
  lifeline_.Hear(AssignmentOf(2));
  EXPECT_THAT(breaks_, IsEmpty()) << "the step is finished first";
  EXPECT_FALSE(lifeline_.IsOver());
  EXPECT_EQ(lifeline_.Next(Soon())->generation.number, 2u);
  EXPECT_FALSE(lifeline_.wants_regroup());
}

TEST_F(LifelineTest, ABreakThatCameWhileNobodyListenedIsNotLost) {
  lifeline_.Hear(AssignmentOf(1));
  ASSERT_TRUE(lifeline_.Next(Soon()).ok());
  lifeline_.Hear(channel::Dissolved{{1, 7}, "early"});
  lifeline_.OnBreak(Note());
  EXPECT_THAT(breaks_, ElementsAre("early"));
}

TEST_F(LifelineTest, StopAndALostAgentEndEveryWait) {
  std::thread stopper([&] { lifeline_.Hear(channel::Stop{"the job has failed"}); });
  EXPECT_EQ(lifeline_.Next(std::nullopt).status(), absl::CancelledError("the job has failed"));
  stopper.join();
  Lifeline other;
  other.OnBreak(Note());
  other.Lose("the agent is gone");
  EXPECT_THAT(breaks_, ElementsAre("the agent is gone"));
  EXPECT_EQ(other.Next(std::nullopt).status(), absl::UnavailableError("the agent is gone"));
}

TEST_F(LifelineTest, WhoIsDoneHearsWhatBecomesOfItsGeneration) {
  lifeline_.Hear(AssignmentOf(1));
  ASSERT_TRUE(lifeline_.Next(Soon()).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(lifeline_.WaitForEnd(Now())));
  lifeline_.Hear(channel::Dissolved{{1, 7}, "node2 joins", /*gentle=*/true});
  EXPECT_EQ(lifeline_.WaitForEnd(Soon()), absl::UnavailableError("node2 joins"));
  lifeline_.Hear(AssignmentOf(2));
  EXPECT_TRUE(absl::IsUnavailable(lifeline_.WaitForEnd(Soon())));
  ASSERT_EQ(lifeline_.Next(Soon())->generation.number, 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(lifeline_.WaitForEnd(Now())));
  std::thread stopper([&] { lifeline_.Hear(channel::Stop{"the job has ended"}); });
  EXPECT_TRUE(lifeline_.WaitForEnd(Soon()).ok());
  stopper.join();
  Lifeline other;
  other.Lose("the agent is gone");
  EXPECT_TRUE(other.WaitForEnd(Soon()).ok());
}

TEST_F(LifelineTest, ADrainIsAWishAndBreaksNothing) {
  lifeline_.Hear(AssignmentOf(1));
  ASSERT_TRUE(lifeline_.Next(Soon()).ok());
  lifeline_.OnBreak(Note());
  EXPECT_FALSE(lifeline_.drains());
  lifeline_.Hear(channel::Drain{30, "received SIGTERM"});
  EXPECT_TRUE(lifeline_.drains());
  EXPECT_EQ(lifeline_.drain_wish(), "received SIGTERM");
  EXPECT_THAT(breaks_, IsEmpty());
}

}  // namespace
}  // namespace mtrun::engine
