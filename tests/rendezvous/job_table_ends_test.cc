// Runs that ended before the service began, as written down.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rendezvous/job/job_table.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

class JobTableEndsTest : public ::testing::Test {
 protected:
  /// Returns whether a node of that run is sent this kind of event. `seen`: the newest generation that it
  /// knows.
  template <typename Kind>
  bool Hears(const std::string& node, uint64_t incarnation, const Generation& seen = {}) {
    StreamOpened opened;
    opened.settings.job_id = "a";
    opened.seen = seen;
    opened.incarnation = incarnation;
    return Says<Kind>(table_.Step("a", Event{node, opened}, TimePoint()));
  }
  /// Returns whether the node is given a generation.
  bool Runs(const std::string& node) {
    Hears<Assigned>(node, 0);
    Offer offer;
    offer.node_id = offer.host = node;
    return Says<Assigned>(table_.Step("a", Event{node, AgentSaid{OfferSent{offer}, {}}}, TimePoint()));
  }
  static RememberedEnd End(bool success) {
    return {"a", {7, 3, success}, JobOutcome{success, success ? 0 : 1, "it was enough", {}, false}};
  }

  JobTable table_{{3, TimePoint(), Duration::zero()}};

 private:
  template <typename Kind>
  static bool Says(const std::vector<JobTable::JobEffect>& effects) {
    for (const auto& [job_id, effect] : effects) {
      const auto* send = std::get_if<Send>(&effect);
      if (send != nullptr && std::holds_alternative<Kind>(send->event)) return true;
    }
    return false;
  }
};

/// The node was cut off while the job ended, and the service's process ended too; the id is used again at
/// once.
TEST_F(JobTableEndsTest, LateNodeLearnsTheOutcome) {
  table_.Remember({}, {End(true)});
  EXPECT_TRUE(Hears<JobEnded>("late", 7));
  EXPECT_TRUE(Runs("node1"));
  EXPECT_NE(table_.jobs().at("a").incarnation(), 7u);
  EXPECT_TRUE(Hears<JobEnded>("late", 7, {3, 5})) << "beside the next run, too";
}

/// A minority ended it, for example by its own time limit, while the others continued.
TEST_F(JobTableEndsTest, EndIsIgnoredForNodesOfALaterGeneration) {
  table_.Remember({}, {End(false)});
  EXPECT_FALSE(Hears<JobEnded>("node1", 7, {4, 9}));
  EXPECT_TRUE(table_.Has("a", "node1"));
}

/// The service was killed between writing the end and removing the membership.
TEST_F(JobTableEndsTest, MembersOfAnEndedRunAreNotAwaited) {
  Assignment over = MakeGeneration(3, {"node1", "node2"});
  over.incarnation = 7;
  table_.Remember({{"a", {over, {}}}}, {End(true)});
  EXPECT_TRUE(Runs("node5"));
  EXPECT_NE(table_.jobs().at("a").incarnation(), 7u);
}

/// The nodes of a run were all cut off. Nodes that come and go before there is a generation do not end it.
TEST_F(JobTableEndsTest, NodeWithoutAGenerationDoesNotEndTheRun) {
  ASSERT_TRUE(Runs("node1"));
  const Assignment first = *table_.RunningIn("a");
  TimePoint now;
  for (int second = 0; second < 60; ++second) table_.Tick(now += std::chrono::seconds(1));
  ASSERT_TRUE(table_.jobs().empty());
  const auto say = [&](const AgentEvent& event) {
    table_.Step("a", Event{"node2", AgentSaid{event, {}}}, now);
  };
  Hears<Waiting>("node2", 0);
  say(Leaving{"Ctrl-C"});
  EXPECT_FALSE(Hears<JobEnded>("node1", first.incarnation, first.generation));
  EXPECT_TRUE(table_.Has("a", "node1"));
}

/// Holds however many other jobs have ended since.
TEST_F(JobTableEndsTest, EndedRunDoesNotContinueAgain) {
  ASSERT_TRUE(Runs("node1"));
  const uint64_t run = table_.RunningIn("a")->incarnation;
  TimePoint now;
  for (int second = 0; second < 60; ++second) table_.Tick(now += std::chrono::seconds(1));
  ASSERT_TRUE(Runs("node2"));
  EXPECT_EQ(table_.RunningIn("a")->incarnation, run);
  const auto end = [&](const std::string& job, const std::string& node) {
    table_.Step(job, Event{node, AgentSaid{WorkersFinished{table_.RunningIn(job)->generation, false}, {}}},
                now);
    table_.Step(job, Event{node, AgentSaid{Leaving{"done"}, {}}}, now);
  };
  end("a", "node2");
  for (size_t i = 0; i < JobTable::kMaxRemembered; ++i) {
    const std::string job = absl::StrCat("job", i);
    StreamOpened opened;
    opened.settings.job_id = job;
    table_.Step(job, Event{"node1", opened}, now);
    table_.Step(job, Event{"node1", AgentSaid{OfferSent{MakeOffer("node1")}, {}}}, now);
    end(job, "node1");
  }
  ASSERT_TRUE(Runs("node3"));
  EXPECT_NE(table_.RunningIn("a")->incarnation, run);
}

/// Otherwise new nodes that were sent away would come back and find the ended run remembered, again and
/// again.
TEST(JobTable, RunThatEndedElsewhereIsRememberedForItsNodesOnly) {
  const TimePoint now;
  const std::vector<std::string> list = {"node1:29400", "node2:29400"};
  JobTable table({3, now, Duration::zero(), false, 0, {list[1], /*embedded=*/true, /*standby=*/false}});
  Assignment before = MakeAssignment({5, 55}, {MakeOffer("node1")}, 0, 0);
  before.incarnation = 77;
  table.Remember({{"a", {before, {}}}});
  StreamOpened opened;
  opened.settings.job_id = "a";
  opened.settings.endpoints = list;
  table.Step("a", Event{"node3", opened}, now);
  EXPECT_TRUE(table.jobs().at("a").last_generation().has_value());
  ProbeResult looked;
  looked.dead = {"node1"};
  looked.peers.resize(2);
  looked.peers[0].endpoint = list[0];
  looked.peers[0].state = PeerService::State::kWithoutJob;
  looked.peers[0].ended = {{77, 5, true}};
  looked.peers[1].endpoint = list[1];
  looked.peers[1].state = PeerService::State::kSelf;
  table.Step("a", Event{"", looked}, now);
  EXPECT_TRUE(table.jobs().empty()) << "who was in no run of it comes again";
  table.Step("a", Event{"node3", opened}, now);
  EXPECT_FALSE(table.jobs().at("a").last_generation().has_value());
  // The run's own nodes learn how it ended, even if the service that knew more is gone.
  opened.incarnation = 77;
  opened.seen = {5, 55};
  const auto effects = table.Step("a", Event{"node2", opened}, now);
  ASSERT_FALSE(effects.empty());
  const auto* told = std::get_if<Send>(&effects.front().second);
  ASSERT_NE(told, nullptr);
  ASSERT_TRUE(std::holds_alternative<JobEnded>(told->event));
  EXPECT_TRUE(std::get<JobEnded>(told->event).outcome.success);
  EXPECT_EQ(table.LastEnd("a")->run.incarnation, 77u) << "for those who ask later";
}

}  // namespace
}  // namespace mtrun::rendezvous
