// Lookups of a service in the table of one job for each message.
#include "gtest/gtest.h"
#include "rendezvous/job/job_table.h"

namespace mtrun::rendezvous {
namespace {

class JobTableLookupTest : public ::testing::Test {
 protected:
  std::vector<JobTable::JobEffect> Say(const std::string& job, const std::string& node, AgentEvent event) {
    return table_.Step(job, Event{node, AgentSaid{std::move(event), {}}}, now_);
  }
  /// The node joins the job and runs it.
  Assignment Run(const std::string& job, const std::string& node) {
    StreamOpened opened;
    opened.settings.job_id = job;
    table_.Step(job, Event{node, opened}, now_);
    Offer offer;
    offer.node_id = offer.host = node;
    for (const auto& [job_id, effect] : Say(job, node, OfferSent{offer})) {
      const auto* send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      if (const auto* assigned = std::get_if<Assigned>(&send->event)) return assigned->assignment();
    }
    ADD_FAILURE() << node << " was not assigned";
    return {};
  }

  TimePoint now_;
  JobTable table_{{3, TimePoint(), Duration::zero()}};
};

TEST_F(JobTableLookupTest, StepOfAJobDoesNotMoveTheDeadlineOfAnother) {
  EXPECT_FALSE(table_.NextDeadlineOf("a").has_value());
  Run("a", "node1");
  const auto first = table_.NextDeadlineOf("a");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(table_.NextDeadline(), first);
  now_ += std::chrono::milliseconds(100);
  const Generation generation = Run("b", "node1").generation;
  EXPECT_EQ(table_.NextDeadlineOf("a"), first);
  EXPECT_EQ(table_.NextDeadline(), first);
  EXPECT_GT(table_.NextDeadlineOf("b"), first);
  // An ended job that nodes have not left yet counts under its id, beside the next one.
  Say("b", "node1", WorkersFinished{generation, false});
  const auto ended = table_.NextDeadlineOf("b");
  Run("b", "node2");
  EXPECT_LT(table_.NextDeadlineOf("b"), ended);
  Say("b", "node2", Leaving{"that was all"});
  EXPECT_EQ(table_.NextDeadlineOf("b"), ended);
  EXPECT_EQ(table_.NextDeadlineOf("a"), first);
  table_.Step("a", Event{"node1", Heartbeat{}}, now_);
  EXPECT_GT(table_.NextDeadlineOf("a"), first);
  EXPECT_EQ(table_.NextDeadlineOf("b"), ended);
}

TEST_F(JobTableLookupTest, FindsTheRunningGeneration) {
  EXPECT_EQ(table_.RunningIn("a"), nullptr);
  const Assignment runs = Run("a", "node1");
  ASSERT_NE(table_.RunningIn("a"), nullptr);
  EXPECT_EQ(*table_.RunningIn("a"), runs);
  EXPECT_EQ(table_.RunningIn("b"), nullptr);
  Say("a", "node1", WorkersFinished{runs.generation, false});
  EXPECT_EQ(table_.RunningIn("a"), nullptr);
}

}  // namespace
}  // namespace mtrun::rendezvous
