#include "rendezvous/job/control_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/job/job_table.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

class ControlChoiceTest : public ::testing::Test {
 protected:
  void Arrive(const std::string& job, const std::string& host, int least = 1) {
    JobSettings settings;
    settings.job_id = job;
    settings.min_nodes = least;
    settings.max_nodes = 2;
    table_.Step(job, Event{host + "-1", StreamOpened{settings, {}, 0}}, now_);
    Offer offer;
    offer.node_id = host + "-1";
    offer.host = host;
    table_.Step(job, Event{offer.node_id, AgentSaid{OfferSent{offer}, {}}}, now_);
  }
  absl::StatusOr<ControlDecision> Decide(const ControlQuestion& question) const {
    return DecideControl(question, table_.jobs(), now_);
  }
  std::string Refusal(const ControlQuestion& question) const {
    return std::string(Decide(question).status().message());
  }

  TimePoint now_ = TimePoint(std::chrono::seconds(100));
  JobTable table_{JobMachine::Options{3, TimePoint(), Duration::zero()}};
};

TEST_F(ControlChoiceTest, DrainReportsHowTheJobContinues) {
  Arrive("x", "node1");
  Arrive("x", "node2");
  const auto decision = Decide({.what = DrainCall{"node2"}, .by = {"anna", "login1", 7}});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->event.node_id, "node2-1");
  EXPECT_EQ(std::get<DrainCall>(decision->event.call.what).node, "node2");
  EXPECT_EQ(decision->event.call.by.user, "anna");
  EXPECT_THAT(decision->text, HasSubstr("node2 leaves job \"x\": "));
  EXPECT_THAT(decision->text, HasSubstr("the job continues with 1 node"));
  Arrive("y", "node3", 2);
  Arrive("y", "node4", 2);
  const auto least = Decide({.what = DrainCall{"node4"}, .job_id = "y"});
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_THAT(least->text, HasSubstr("then the job waits for others: it needs 2 nodes"));
}

TEST_F(ControlChoiceTest, ErrorsListTheKnownJobsAndNodes) {
  EXPECT_EQ(Refusal({.what = StopCall()}), "the service has no job");
  Arrive("x", "node1");
  Arrive("x", "node2");
  EXPECT_EQ(Refusal({.what = DrainCall{"node9"}}),
            "\"node9\" is no node of job \"x\", which is of node1, node2");
  EXPECT_EQ(Refusal({.what = StopCall(), .job_id = "z"}), "the service does not have job \"z\", but x");
  Arrive("y", "node3");
  EXPECT_EQ(Refusal({.what = StopCall()}), "the service has 2 jobs; say which one (--rdzv_id): x, y");
  table_.Step("x", Event{"node2-1", StreamClosed{"reset"}}, now_);
  EXPECT_THAT(Refusal({.what = DrainCall{"node2"}, .job_id = "x"}), HasSubstr("node2 is not connected"));
}

TEST_F(ControlChoiceTest, JobIsStoppedOnce) {
  Arrive("x", "node1");
  const auto decision = Decide({.what = StopCall(), .by = {"anna", "login1", 7}});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->text, "job \"x\" is stopped on 1 node");
  table_.Step("x", Event{"", decision->event}, now_);
  EXPECT_EQ(table_.jobs().at("x").outcome()->reason, "stopped by anna@login1 (pid 7)");
  EXPECT_TRUE(table_.jobs().at("x").outcome()->stopped);
  EXPECT_THAT(Refusal({.what = StopCall()}), HasSubstr("has ended"));
}

TEST_F(ControlChoiceTest, StackDumpDoesNotEndTheJob) {
  Arrive("x", "node1");
  const auto decision = Decide({.what = StacksCall(), .by = {"anna", "login1", 7}});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_THAT(decision->text, HasSubstr("write the stacks of their workers"));
  table_.Step("x", Event{"", decision->event}, now_);
  EXPECT_FALSE(table_.jobs().at("x").outcome());
}

TEST_F(ControlChoiceTest, RankIsResolvedToItsNode) {
  EXPECT_TRUE(absl::IsNotFound(FindRank(table_.jobs(), "", 0).status()));
  Arrive("x", "node1");
  EXPECT_THAT(std::string(FindRank(table_.jobs(), "", 0).status().message()),
              HasSubstr("runs no worker now"));
  Arrive("x", "node2");
  const auto place = FindRank(table_.jobs(), "", 1);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->node_id, "node2-1");
  EXPECT_EQ(FindRank(table_.jobs(), "x", 2).status().message(),
            "generation 1 of job \"x\" has no rank 2, but 0 to 1");
  table_.Step("x", Event{"node2-1", StreamClosed{"reset"}}, now_);
  EXPECT_EQ(FindRank(table_.jobs(), "x", 1).status().message(), "rank 1 is on node2, which is not connected");
}

TEST(ControlCallTest, RequesterIsSanitizedForLogs) {
  const Requester by = Cleaned({"an\nna", "\033[2J", -5}, "10.0.0.7:4242");
  EXPECT_EQ(Describe(by), "an?na@?[2J (from 10.0.0.7:4242)");
  EXPECT_EQ(Cleaned({std::string(1000, 'x'), "", 1}, "").user.size(), kMaxName);
  EXPECT_EQ(Describe(Requester{}), "an operator");
}

}  // namespace
}  // namespace mtrun::rendezvous
