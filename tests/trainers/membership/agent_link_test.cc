#include "trainers/membership/agent_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace mtrun::trainers {
namespace {

using channel::Generation;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

channel::Assignment AssignmentOf(uint64_t number) {
  channel::Assignment assignment;
  assignment.generation = {number, 7};
  return assignment;
}

/// A deadline for waits that would never end if the link failed.
TimePoint Soon() { return MonotonicNow() + std::chrono::seconds(10); }
TimePoint Now() { return MonotonicNow(); }

class AgentLinkTest : public ::testing::Test {
 protected:
  std::function<void(const std::string&)> Note() {
    return [this](const std::string& why) { breaks_.push_back(why); };
  }
  AgentLink agent_link_;
  std::vector<std::string> breaks_;
};

TEST_F(AgentLinkTest, EntersTheNewestAssignmentOnce) {
  EXPECT_EQ(agent_link_.Next(Now()).status().code(), absl::StatusCode::kDeadlineExceeded);
  agent_link_.Hear(AssignmentOf(1));
  agent_link_.Hear(AssignmentOf(2));
  const auto next = agent_link_.Next(Soon());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->generation.number, 2u);
  EXPECT_FALSE(agent_link_.IsOver());
  EXPECT_EQ(agent_link_.Next(Now()).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(AgentLinkTest, AssignmentDissolvedBeforeEntryIsSkipped) {
  agent_link_.Hear(AssignmentOf(1));
  agent_link_.Hear(channel::Dissolved{{1, 7}, "node2 is lost"});
  EXPECT_EQ(agent_link_.Next(Now()).status().code(), absl::StatusCode::kDeadlineExceeded);
  agent_link_.Hear(AssignmentOf(2));
  EXPECT_EQ(agent_link_.Next(Soon())->generation.number, 2u);
}

TEST_F(AgentLinkTest, DissolvedGenerationBreaksOnlyItsOwnGroup) {
  agent_link_.Hear(AssignmentOf(2));
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  agent_link_.OnBreak(Note());
  agent_link_.Hear(channel::Dissolved{{1, 7}, "old news"});
  EXPECT_THAT(breaks_, IsEmpty());
  agent_link_.Hear(channel::Dissolved{{2, 7}, "node2 is lost"});
  EXPECT_THAT(breaks_, ElementsAre("node2 is lost"));
  EXPECT_TRUE(agent_link_.IsOver());
}

TEST_F(AgentLinkTest, NewerAssignmentBreaksTheOldGroupToo) {
  agent_link_.Hear(AssignmentOf(1));
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  agent_link_.OnBreak(Note());
  agent_link_.Hear(AssignmentOf(1));
  EXPECT_THAT(breaks_, IsEmpty()) << "the same one again confirms it";
  agent_link_.Hear(AssignmentOf(3));
  EXPECT_EQ(breaks_.size(), 1u);
  EXPECT_EQ(agent_link_.Next(Soon())->generation.number, 3u);
  EXPECT_FALSE(agent_link_.IsOver());
}

TEST_F(AgentLinkTest, GracefulEndBreaksNothingAndEndsWithTheNextEntry) {
  agent_link_.Hear(AssignmentOf(1));
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  agent_link_.OnBreak(Note());
  EXPECT_FALSE(agent_link_.wants_regroup());
  agent_link_.Hear(channel::Dissolved{{1, 7}, "node2 joins", /*graceful=*/true});
  EXPECT_TRUE(agent_link_.wants_regroup());
  agent_link_.Hear(AssignmentOf(2));
  EXPECT_THAT(breaks_, IsEmpty()) << "the step is finished first";
  EXPECT_FALSE(agent_link_.IsOver());
  EXPECT_EQ(agent_link_.Next(Soon())->generation.number, 2u);
  EXPECT_FALSE(agent_link_.wants_regroup());
}

TEST_F(AgentLinkTest, BreakBeforeAListenerIsSetIsNotLost) {
  agent_link_.Hear(AssignmentOf(1));
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  agent_link_.Hear(channel::Dissolved{{1, 7}, "early"});
  agent_link_.OnBreak(Note());
  EXPECT_THAT(breaks_, ElementsAre("early"));
}

TEST_F(AgentLinkTest, StopOrLostAgentEndsEveryWait) {
  std::thread stopper([&] { agent_link_.Hear(channel::Stop{"the job has failed"}); });
  EXPECT_EQ(agent_link_.Next(std::nullopt).status(), absl::CancelledError("the job has failed"));
  stopper.join();
  AgentLink other;
  other.OnBreak(Note());
  other.Lose("the agent is gone");
  EXPECT_THAT(breaks_, ElementsAre("the agent is gone"));
  EXPECT_EQ(other.Next(std::nullopt).status(), absl::UnavailableError("the agent is gone"));
}

TEST_F(AgentLinkTest, StopCanSayThatTheJobContinuesOnOtherNodes) {
  agent_link_.Hear(AssignmentOf(1));
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  agent_link_.Hear(channel::Dissolved{{1, 7}, "node2 is lost"});
  EXPECT_FALSE(agent_link_.others_continue());
  agent_link_.Hear(channel::Stop{"told to go", /*complete=*/false, /*others_continue=*/true});
  EXPECT_TRUE(agent_link_.others_continue());
  EXPECT_FALSE(agent_link_.work_is_done());
  EXPECT_EQ(agent_link_.Next(Soon()).status(), absl::CancelledError("told to go"));
}

TEST_F(AgentLinkTest, HasNextSaysWhetherNextReturnsAtOnce) {
  EXPECT_FALSE(agent_link_.HasNext());
  agent_link_.Hear(AssignmentOf(1));
  EXPECT_TRUE(agent_link_.HasNext());
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  EXPECT_FALSE(agent_link_.HasNext());
  agent_link_.Hear(channel::Dissolved{{1, 7}, "node2 is lost"});
  EXPECT_FALSE(agent_link_.HasNext());
  agent_link_.Hear(AssignmentOf(2));
  EXPECT_TRUE(agent_link_.HasNext());
  agent_link_.Hear(channel::Stop{"the job has failed"});
  EXPECT_FALSE(agent_link_.HasNext());
}

TEST_F(AgentLinkTest, WaitForEndReturnsHowTheGenerationEnded) {
  agent_link_.Hear(AssignmentOf(1));
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(agent_link_.WaitForEnd(Now())));
  agent_link_.Hear(channel::Dissolved{{1, 7}, "node2 joins", /*graceful=*/true});
  EXPECT_EQ(agent_link_.WaitForEnd(Soon()), absl::UnavailableError("node2 joins"));
  agent_link_.Hear(AssignmentOf(2));
  EXPECT_TRUE(absl::IsUnavailable(agent_link_.WaitForEnd(Soon())));
  ASSERT_EQ(agent_link_.Next(Soon())->generation.number, 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(agent_link_.WaitForEnd(Now())));
  EXPECT_FALSE(agent_link_.work_is_done());
  std::thread stopper([&] { agent_link_.Hear(channel::Stop{"the job has ended", /*complete=*/true}); });
  EXPECT_TRUE(agent_link_.WaitForEnd(Soon()).ok());
  stopper.join();
  EXPECT_TRUE(agent_link_.work_is_done());
  AgentLink other;
  other.Lose("the agent is gone");
  EXPECT_TRUE(other.WaitForEnd(Soon()).ok());
}

TEST_F(AgentLinkTest, DrainRequestBreaksNothing) {
  agent_link_.Hear(AssignmentOf(1));
  ASSERT_TRUE(agent_link_.Next(Soon()).ok());
  agent_link_.OnBreak(Note());
  EXPECT_FALSE(agent_link_.drains());
  EXPECT_FALSE(agent_link_.drains_since());
  const TimePoint before = MonotonicNow();
  agent_link_.Hear(channel::Drain{30, "received SIGTERM"});
  EXPECT_TRUE(agent_link_.drains());
  const std::optional<TimePoint> since = agent_link_.drains_since();
  ASSERT_TRUE(since);
  EXPECT_GE(*since, before);
  agent_link_.Hear(channel::Drain{20, "received SIGTERM"});
  EXPECT_EQ(agent_link_.drains_since(), since) << "the first time counts";
  EXPECT_EQ(agent_link_.drain_wish(), "received SIGTERM");
  EXPECT_THAT(breaks_, IsEmpty());
}

TEST_F(AgentLinkTest, WatchLastsAMinuteAtMost) {
  EXPECT_LT(agent_link_.watched_until(), Now());
  agent_link_.Hear(channel::Watch{.seconds = 1e9});
  EXPECT_GT(agent_link_.watched_until(), Now());
  EXPECT_LE(agent_link_.watched_until(), Now() + std::chrono::minutes(1));
  agent_link_.Hear(channel::Watch{.seconds = -1});
  EXPECT_LE(agent_link_.watched_until(), Now());
}

}  // namespace
}  // namespace mtrun::trainers
