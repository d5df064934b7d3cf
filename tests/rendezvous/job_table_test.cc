#include "rendezvous/job/job_table.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/job_table_fixture.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

TEST_F(JobTableTest, JobsAreIndependent) {
  const Generation a = Run("a", "node1"), b = Run("b", "node1");
  EXPECT_NE(a.id, b.id);
  EXPECT_NE(Find<JobEnded>(Say("a", "node1", WorkersFinished{a, false})), nullptr);
  EXPECT_EQ(table_.jobs().at("b").View(now_).phase, "running");
}

TEST_F(JobTableTest, GenerationNumbersContinueAfterAllNodesAreGone) {
  EXPECT_EQ(Run("a", "node1").number, 1u);
  AwaitNobody();
  EXPECT_EQ(Run("a", "node2").number, 2u);
  EXPECT_EQ(Run("b", "node2").number, 1u);
}

/// One node was killed and restarted, the other one's cable was out for a while.
TEST_F(JobTableTest, RunContinuesWithReturningNodesAfterAllWereGone) {
  const Assignment first = RunAll("a", "node1");
  AwaitNobody();
  const Assignment second = RunAll("a", "node2");
  EXPECT_EQ(second.incarnation, first.incarnation);
  EXPECT_EQ(Find<Refused>(Open("a", "node1", first.incarnation)), nullptr);
  // After the end, the next run is another one.
  Say("a", "node2", WorkersFinished{second.generation, false});
  EXPECT_NE(RunAll("a", "node3").incarnation, first.incarnation);
}

TEST_F(JobTableTest, IdOfAnEndedJobStartsANewRun) {
  const Generation first = Run("a", "node1");
  Say("a", "node1", WorkersFinished{first, false});
  Say("a", "node1", Leaving{"done"});
  EXPECT_TRUE(table_.jobs().empty());
  const Generation second = Run("a", "node2");
  EXPECT_EQ(second.number, 1u);
  EXPECT_NE(second.id, first.id);
}

TEST_F(JobTableTest, NodeAwayAtTheEndLearnsTheOutcome) {
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

TEST_F(JobTableTest, OtherServicesLearnOfEndedRuns) {
  const Assignment first = RunAll("a", "node1");
  EXPECT_TRUE(table_.EndedRuns().empty());
  Say("a", "node1", WorkersFinished{first.generation, false});
  const EndedRun succeeded{first.incarnation, 1, true};
  EXPECT_EQ(table_.EndedRuns(), (std::map<std::string, std::vector<EndedRun>>{{"a", {succeeded}}}))
      << "its node is still here";
  Say("a", "node1", Leaving{"done"});
  const Assignment second = RunAll("a", "node2");
  EXPECT_EQ(table_.EndedRuns().at("a"), std::vector<EndedRun>{succeeded}) << "the second one has not ended";
  Say("a", "node2", WorkerFailed{second.generation, WorkerFailure{"node2", 0, 0, 1, 7, 0, "", "", ""}});
  EXPECT_EQ(table_.EndedRuns().at("a").back(), (EndedRun{second.incarnation, 1, false}));
}

TEST_F(JobTableTest, IdCanBeReusedBeforeTheNodesOfTheEndedJobAreGone) {
  const Assignment first = RunAll("a", "node1");
  ASSERT_NE(Find<JobEnded>(Say("a", "node1", WorkersFinished{first.generation, false})), nullptr);
  const Assignment second = RunAll("a", "node2");
  EXPECT_NE(second.incarnation, first.incarnation);
  EXPECT_EQ(table_.LeaseFor("a", "node2", {}, {}).generation, second.generation);
  EXPECT_TRUE(table_.Has("a", "node1") && table_.Has("a", "node2"));
  Say("a", "node1", Leaving{"done"});
  EXPECT_FALSE(table_.Has("a", "node1"));
  EXPECT_EQ(table_.LeaseFor("a", "node2", {}, {}).generation, second.generation)
      << "the end of the first is not its end";
  // A node of the first run that was away learns how its own job ended.
  EXPECT_NE(Find<JobEnded>(Open("a", "node3", first.incarnation)), nullptr);
  EXPECT_FALSE(table_.Has("a", "node3"));
}

/// The service at which the run ended is gone, and its outcome with it.
TEST_F(JobTableTest, LateNodeOfAForgottenRunIsRefused) {
  constexpr uint64_t kForgotten = 4711;
  const Assignment second = RunAll("a", "node1");
  const auto effects = Open("a", "node2", kForgotten);
  ASSERT_NE(Find<Refused>(effects), nullptr);
  EXPECT_TRUE(std::holds_alternative<RunReplaced>(Find<Refused>(effects)->cause.kind));
  EXPECT_FALSE(table_.Has("a", "node2"));
  EXPECT_EQ(table_.LeaseFor("a", "node1", {}, {}).generation, second.generation);
  EXPECT_EQ(Find<Refused>(Open("a", "node3", second.incarnation)), nullptr) << "a node of this run";
  EXPECT_EQ(Find<Refused>(Open("a", "node4")), nullptr) << "a new one";
}

class StartingJobTableTest : public JobTableTest {
 protected:
  static constexpr Duration kWindow = std::chrono::seconds(3);
  StartingJobTableTest() : JobTableTest({}, {}, kWindow) {}
};

/// The node came to a service that had just started and did not know yet which run continues.
TEST_F(StartingJobTableTest, NodeOfAnotherRunIsRefusedOnceTheRunIsKnown) {
  Open("a", "late", /*incarnation=*/4711);
  Offer offer;
  offer.node_id = offer.host = "late";
  Say("a", "late", OfferSent{offer});
  offer.node_id = offer.host = "node1";
  Assignment held = MakeAssignment({7, 70}, {offer}, 0);
  held.incarnation = 88;
  Open("a", "node1", held.incarnation);
  offer.holds = held.generation;
  table_.Step("a", Event{"node1", AgentSaid{OfferSent{offer}, held}}, now_);
  EXPECT_EQ(table_.LeaseFor("a", "node1", {}, {}).generation, held.generation);
  EXPECT_TRUE(table_.Has("a", "late")) << "its own run may be the one that goes on";
  for (int look = 0; table_.Has("a", "late"); ++look) {
    ASSERT_TRUE(table_.NextDeadline().has_value());
    ASSERT_TRUE(look < 100 && *table_.NextDeadline() <= TimePoint() + kWindow) << "it stays";
    now_ = std::max(now_, *table_.NextDeadline());
    for (const char* node : {"late", "node1"}) table_.Step("a", Event{node, Heartbeat{}}, now_);
    const auto effects = table_.Tick(now_);
    EXPECT_EQ(Find<Membership>(effects), nullptr) << "it would be taken for one of this run";
    EXPECT_EQ(Find<Refused>(effects) != nullptr, !table_.Has("a", "late"));
  }
  EXPECT_EQ(table_.LeaseFor("a", "node1", {}, {}).generation, held.generation);
}

TEST_F(JobTableTest, NodesOfAnEndedJobAreRemovedAlthoughItsIdIsReused) {
  const Assignment first = RunAll("a", "node1");
  Say("a", "node1", WorkersFinished{first.generation, false});
  const Assignment second = RunAll("a", "node2");
  while (table_.Has("a", "node1")) {
    ASSERT_TRUE(table_.NextDeadline().has_value());
    now_ = *table_.NextDeadline();
    table_.Step("a", Event{"node2", Heartbeat{}}, now_);
    table_.Tick(now_);
  }
  EXPECT_EQ(table_.LeaseFor("a", "node2", {}, {}).generation, second.generation);
}

TEST_F(JobTableTest, LateNodeLearnsTheOutcomeWhileOthersAreConnected) {
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

TEST_F(JobTableTest, TickUpdatesJobsThatAreDue) {
  Run("a", "node1");
  ASSERT_TRUE(table_.NextDeadline().has_value());
  now_ = *table_.NextDeadline();
  table_.Tick(now_);
  EXPECT_FALSE(table_.jobs().at("a").Has("node1")) << "it was silent for three heartbeats";
}

TEST_F(JobTableTest, JobIsRememberedWhileALostNodeMayRun) {
  const Generation run = Run("a", "node1");
  table_.Step("a", Event{"node1", Heartbeat{}}, now_);
  EXPECT_EQ(table_.LeaseFor("a", "node1", {}, {}).generation, run);
  EXPECT_EQ(table_.LeaseFor("a", "node2", {}, {}).generation, Generation{});
  EXPECT_EQ(table_.LeaseFor("b", "node1", {}, {}).generation, Generation{});
  now_ = *table_.NextDeadline();
  table_.Tick(now_);
  EXPECT_EQ(table_.LeaseFor("a", "node1", {}, {}).generation, Generation{});
  ASSERT_TRUE(table_.NextDeadline().has_value());
  now_ = *table_.NextDeadline();
  EXPECT_GE(now_ - TimePoint(), JobSettings().fence_timeout);
  table_.Tick(now_);
  EXPECT_TRUE(table_.jobs().empty());
}

/// No member is left, so the services of the list decide, and each probes only now and then.
TEST(JobTable, FreshServiceOfAListDoesNotRestartTheJobAtOnce) {
  const TimePoint started;
  JobTable table({3, started, std::chrono::seconds(3)});
  StreamOpened opened{TableSettings("a"), {}, 0};
  opened.settings.endpoints = {"service1", "service2"};
  opened.last = MakeAssignment({1, 11}, {MakeOffer("node1")}, 0, 0);
  table.Step("a", Event{"node2", opened}, started);
  table.Step("a", Event{"node2", AgentSaid{OfferSent{MakeOffer("node2")}, {}}}, started);
  const auto begins = [&](Duration at, bool dead) {
    ProbeResult looked;
    (dead ? looked.dead : looked.alive) = {"node1"};
    looked.peers.resize(2);
    looked.peers[0].endpoint = "service1", looked.peers[0].state = PeerService::State::kSelf;
    looked.peers[1].endpoint = "service2", looked.peers[1].state = PeerService::State::kWithoutJob;
    return Find<Assigned>(table.Step("a", Event{"", looked}, started + at)) != nullptr;
  };
  EXPECT_FALSE(begins(std::chrono::milliseconds(100), /*dead=*/false));
  EXPECT_FALSE(begins(std::chrono::milliseconds(200), /*dead=*/true));
  EXPECT_TRUE(begins(std::chrono::seconds(3), /*dead=*/true));
}

/// The only member continues at a standby service without the others: the host may have given the job to a
/// spare.
TEST(JobTable, StandbyLeasesToAMemberThatItsHostHadNotLost) {
  const TimePoint now;
  const auto lease = [&](Duration silence) {
    JobTable table(
        {3, now, Duration::zero(), false, 0, {"node1:29400", /*embedded=*/true, /*standby=*/true}});
    StreamOpened opened{TableSettings("a"), {1, 11}, 0};
    opened.silence = silence;
    table.Step("a", Event{"node2", opened}, now);
    Offer offer = MakeOffer("node2");
    offer.service_port = 30001;
    const Assignment held = MakeAssignment({1, 11}, {offer}, 0, 0);
    offer.holds = held.generation;
    table.Step("a", Event{"node2", AgentSaid{OfferSent{offer}, held}}, now);
    EXPECT_EQ(table.jobs().at("a").RunBy("node2"), held.generation);
    return table.LeaseFor("a", "node2", std::chrono::seconds(9), {});
  };
  const Duration lost = TableSettings("a").LostAfter();
  const Lease given = lease(lost - Duration(1)), none = lease(lost);
  EXPECT_EQ(given.sent, std::chrono::seconds(9));
  EXPECT_EQ(given.generation.number, 1u);
  EXPECT_TRUE(given.authority);
  EXPECT_EQ(none, Lease{.sent = std::chrono::seconds(9)});
}

/// No other service can have the job: a refusal counts if the previous service had received an answer.
TEST(JobTable, StandaloneServiceRestartsTheJobOnceAllNodesAreGone) {
  const TimePoint now;
  const auto refused = [&](std::set<std::string> verified) {
    JobTable table({3, now, Duration::zero()});
    Assignment before = MakeAssignment({5, 55}, {MakeOffer("node1")}, 0, 0);
    before.incarnation = 77;
    table.Remember({{"a", {before, std::move(verified)}}});
    table.Step("a", Event{"node2", StreamOpened{TableSettings("a"), {}, 0}}, now);
    table.Step("a", Event{"node2", AgentSaid{OfferSent{MakeOffer("node2")}, {}}}, now);
    EXPECT_TRUE(table.jobs().at("a").WantsProbe()->members.contains("node1"));
    ProbeResult looked;
    looked.dead = {"node1"};
    table.Step("a", Event{"", looked}, now);
    return table;
  };
  EXPECT_FALSE(refused({}).jobs().at("a").generation().running()) << "it may be a firewall's";
  JobTable table = refused({"node1"});
  const JobMachine& begun = table.jobs().at("a");
  EXPECT_EQ(begun.last_number(), 6u);
  EXPECT_EQ(begun.incarnation(), 77u) << "the run goes on: spares that were cut off come back to it";
  EXPECT_TRUE(begun.IsKnownToRun());
  EXPECT_EQ(begun.last_generation()->generation.number, 6u);
  table.Step("a", Event{"node2", AgentSaid{WorkersFinished{begun.generation().id(), false}, {}}}, now);
  EXPECT_FALSE(table.jobs().at("a").IsKnownToRun()) << "it has ended";
}

}  // namespace
}  // namespace mtrun::rendezvous
