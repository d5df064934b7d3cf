#include "rendezvous/job_table.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

JobSettings Settings(const std::string& job_id) {
  JobSettings settings;
  settings.job_id = job_id;
  return settings;
}

template <typename T>
const T* Find(const std::vector<JobTable::JobEffect>& effects) {
  for (const auto& [job_id, effect] : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr) continue;
    if (const T* event = std::get_if<T>(&send->event)) return event;
  }
  return nullptr;
}

class JobTableTest : public ::testing::Test {
 protected:
  std::vector<JobTable::JobEffect> Open(const std::string& job, const std::string& node,
                                        uint64_t incarnation = 0) {
    StreamOpened opened{Settings(job), {}, 0};
    opened.incarnation = incarnation;
    return table_.Step(job, Event{node, opened}, now_);
  }
  std::vector<JobTable::JobEffect> Say(const std::string& job, const std::string& node, AgentEvent event) {
    return table_.Step(job, Event{node, AgentSaid{std::move(event), {}}}, now_);
  }
  Assignment RunAll(const std::string& job, const std::string& node) {
    Open(job, node);
    Offer offer;
    offer.node_id = offer.host = node;
    const auto effects = Say(job, node, OfferSent{offer});
    const Assigned* assigned = Find<Assigned>(effects);
    EXPECT_NE(assigned, nullptr);
    return assigned != nullptr ? assigned->assignment() : Assignment{};
  }
  Generation Run(const std::string& job, const std::string& node) { return RunAll(job, node).generation; }

  TimePoint now_;
  JobTable table_{JobMachine::Options{3, TimePoint(), Duration::zero()}};
};

TEST_F(JobTableTest, JobsDoNotMeet) {
  const Generation a = Run("a", "node1"), b = Run("b", "node1");
  EXPECT_NE(a.id, b.id);
  EXPECT_NE(Find<JobEnded>(Say("a", "node1", WorkersFinished{a, false})), nullptr);
  EXPECT_EQ(table_.jobs().at("b").View(now_).phase, "running");
}

TEST_F(JobTableTest, AnEndedJobsIdStartsAfresh) {
  const Generation first = Run("a", "node1");
  Say("a", "node1", WorkersFinished{first, false});
  Say("a", "node1", Leaving{"done"});
  EXPECT_TRUE(table_.jobs().empty());
  const Generation second = Run("a", "node2");
  EXPECT_EQ(second.number, 1u);
  EXPECT_NE(second.id, first.id);
}

TEST_F(JobTableTest, ANodeThatWasAwayAtTheEndHearsTheOutcome) {
  const Assignment first = RunAll("a", "node1");
  EXPECT_NE(first.incarnation, 0u);
  Say("a", "node1", WorkerFailed{first.generation, WorkerFailure{"node1", 0, 0, 1, 7, 0, "", "", ""}});
  Say("a", "node1", Leaving{"done"});
  const auto effects = Open("a", "node2", first.incarnation);
  const JobEnded* ended = Find<JobEnded>(effects);
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->outcome.exit_code, 7);
  EXPECT_TRUE(table_.jobs().empty());
}

TEST_F(JobTableTest, AnIdCanBeUsedAgainBeforeTheNodesOfTheEndedJobAreGone) {
  const Assignment first = RunAll("a", "node1");
  ASSERT_NE(Find<JobEnded>(Say("a", "node1", WorkersFinished{first.generation, false})), nullptr);
  const Assignment second = RunAll("a", "node2");
  EXPECT_NE(second.incarnation, first.incarnation);
  EXPECT_EQ(table_.RunBy("a", "node2"), second.generation);
  EXPECT_TRUE(table_.Has("a", "node1") && table_.Has("a", "node2"));
  Say("a", "node1", Leaving{"done"});
  EXPECT_FALSE(table_.Has("a", "node1"));
  EXPECT_EQ(table_.RunBy("a", "node2"), second.generation) << "the end of the first is not its end";
  // One of the first that was away hears how its own job ended.
  EXPECT_NE(Find<JobEnded>(Open("a", "node3", first.incarnation)), nullptr);
  EXPECT_FALSE(table_.Has("a", "node3"));
}

TEST_F(JobTableTest, NodesOfAnEndedJobWhoseIdIsUsedAgainDoNotStayForEver) {
  const Assignment first = RunAll("a", "node1");
  Say("a", "node1", WorkersFinished{first.generation, false});
  const Assignment second = RunAll("a", "node2");
  while (table_.Has("a", "node1")) {
    ASSERT_TRUE(table_.NextDeadline().has_value());
    now_ = *table_.NextDeadline();
    table_.Step("a", Event{"node2", Heartbeat{}}, now_);
    table_.Tick(now_);
  }
  EXPECT_EQ(table_.RunBy("a", "node2"), second.generation);
}

TEST_F(JobTableTest, ALateNodeOfTheEndedJobHearsTheOutcomeWhileOthersAreStillThere) {
  const Assignment first = RunAll("a", "node1");
  Say("a", "node1", WorkersFinished{first.generation, false});
  EXPECT_NE(Find<JobEnded>(Open("a", "node2", first.incarnation)), nullptr);
  EXPECT_TRUE(table_.Has("a", "node1"));
  EXPECT_FALSE(table_.Has("a", "node2"));
}

TEST_F(JobTableTest, EventsOfUnknownJobsChangeNothing) {
  EXPECT_TRUE(Say("nothing", "node1", Leaving{"x"}).empty());
  EXPECT_TRUE(table_.Step("nothing", Event{"node1", Heartbeat{}}, now_).empty());
  EXPECT_TRUE(table_.jobs().empty());
  EXPECT_FALSE(table_.NextDeadline().has_value());
}

TEST_F(JobTableTest, TicksReachTheJobsThatAreDue) {
  Run("a", "node1");
  ASSERT_TRUE(table_.NextDeadline().has_value());
  now_ = *table_.NextDeadline();
  table_.Tick(now_);
  EXPECT_FALSE(table_.jobs().at("a").Has("node1")) << "it was silent for three heartbeats";
}

TEST_F(JobTableTest, AJobIsRememberedWhileALostNodeMayStillRun) {
  const Generation run = Run("a", "node1");
  table_.Step("a", Event{"node1", Heartbeat{}}, now_);
  EXPECT_EQ(table_.RunBy("a", "node1"), run);
  EXPECT_EQ(table_.RunBy("a", "node2"), Generation{});
  EXPECT_EQ(table_.RunBy("b", "node1"), Generation{});
  now_ = *table_.NextDeadline();
  table_.Tick(now_);
  EXPECT_EQ(table_.RunBy("a", "node1"), Generation{});
  ASSERT_TRUE(table_.NextDeadline().has_value());
  now_ = *table_.NextDeadline();
  EXPECT_GE(now_ - TimePoint(), JobSettings().fence_timeout);
  table_.Tick(now_);
  EXPECT_TRUE(table_.jobs().empty());
}

}  // namespace
}  // namespace mtrun::rendezvous
