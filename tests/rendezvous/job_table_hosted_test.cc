// Jobs of a service that is part of an mtrun at their endpoint: where they have moved, and which nodes come
// then.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/job/job_table.h"
#include "tests/rendezvous/job_table_fixture.h"

namespace mtrun::rendezvous {
namespace {

/// A service in an mtrun at the endpoint of a job.
class HostedJobTableTest : public JobTableTest {
 protected:
  explicit HostedJobTableTest(JobTable::Remembered remembered = {})
      : JobTableTest({"node1:29400", /*embedded=*/true, /*standby=*/false}, std::move(remembered)) {}
  /// Another service reports the job's generation there.
  std::vector<JobTable::JobEffect> Hear(const std::string& job, uint64_t generation) {
    ProbeResult heard;
    heard.heard = true;
    PeerService& peer = heard.peers.emplace_back();
    peer.endpoint = "node2:30001";
    peer.generation = {generation, 7};
    peer.authority = true;
    return table_.Step(job, Event{"", heard}, now_);
  }
  const Assigned* Join(const std::string& job, const std::string& node) {
    Open(job, node);
    Offer offer;
    offer.node_id = offer.host = offer.address = node;
    offer.service_port = 30001;
    offered_ = Say(job, node, OfferSent{offer});
    return Find<Assigned>(offered_);
  }
  std::vector<JobTable::JobEffect> offered_;
};

TEST_F(HostedJobTableTest, LateNodeOfAMovedJobStartsNoNewRun) {
  ASSERT_NE(Join("a", "node1"), nullptr);
  EXPECT_NE(Find<Redirect>(Hear("a", 5)), nullptr);
  EXPECT_TRUE(table_.jobs().empty());
  EXPECT_EQ(Join("a", "node3"), nullptr) << "node1 may run it elsewhere";
  EXPECT_EQ(table_.jobs().at("a").View(now_).generation.number, 1u);
  EXPECT_EQ(table_.LastNumber("a"), 5u);
}

TEST_F(HostedJobTableTest, LastNumberElsewhereIsKeptForOtherServices) {
  EXPECT_EQ(Find<Redirect>(Hear("a", 5)), nullptr);
  EXPECT_EQ(table_.LastNumber("a"), 5u);
  Hear("a", 4);
  EXPECT_EQ(table_.LastNumber("a"), 5u);
}

/// The other service was cut off while others continued from its generation.
TEST_F(HostedJobTableTest, ServiceWithLowerNumbersIsBehind) {
  ASSERT_NE(Join("a", "node1"), nullptr);
  Hear("a", 5);
  EXPECT_EQ(Join("a", "node3"), nullptr);
  EXPECT_EQ(Find<Redirect>(Hear("a", 4)), nullptr);
  EXPECT_EQ(Find<Redirect>(Hear("a", 1)), nullptr) << "nor one with the members that are known here";
  EXPECT_NE(Find<Redirect>(Hear("a", 5)), nullptr);
}

class ColdRestartTest : public HostedJobTableTest {
 protected:
  static constexpr uint64_t kBefore = 77;
  static Assignment WrittenDown() {
    Offer offer;
    offer.node_id = offer.host = offer.address = "node1";
    offer.service_port = 30001;
    Assignment generation = MakeAssignment({5, 55}, {offer}, 0, 0);
    generation.incarnation = kBefore;
    return generation;
  }
  ColdRestartTest() : HostedJobTableTest({{"a", {WrittenDown(), {}}}}) {}
};

TEST_F(ColdRestartTest, StartsAnotherRun) {
  EXPECT_EQ(Join("a", "node2"), nullptr) << "node1 may still run";
  ProbeResult looked;
  looked.peers.emplace_back().endpoint = "node1:29400";
  looked.peers.back().state = PeerService::State::kSelf;
  looked.dead = {"node1"};
  const auto effects = table_.Step("a", Event{"", looked}, now_);
  const Assigned* after = Find<Assigned>(effects);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->assignment().generation.number, 6u);
  EXPECT_NE(after->assignment().incarnation, kBefore) << "the end of the one before is not its end";
}

/// Simulation, seed 69395001470385: the members that a service at the endpoint had written down were all gone,
/// and a spare of that time continued, at its own service, a generation that followed theirs.
class SpareTest : public ColdRestartTest {
 protected:
  SpareTest() {
    table_.Remember({{"a", {WrittenDown(), {}, {{"node3", "node3:30001"}}}}});
    Join("a", "node2");
  }
  /// The members are dead. Returns the assignment that follows from the state of the spare's service.
  const Assigned* Look(PeerService::State spare, uint64_t generation = 0) {
    ProbeResult looked;
    looked.peers.emplace_back().endpoint = "node1:29400";
    looked.peers.back().state = PeerService::State::kSelf;
    looked.peers.emplace_back().endpoint = "node3:30001";
    looked.peers.back().state = spare;
    looked.peers.back().generation = {generation, 60};
    looked.peers.back().incarnation = generation == 0 ? 0 : kBefore;
    looked.dead = {"node1"};
    looked_ = table_.Step("a", Event{"", looked}, now_);
    return Find<Assigned>(looked_);
  }
  std::vector<JobTable::JobEffect> looked_;
};

TEST_F(SpareTest, ItsServiceIsAskedToo) {
  const auto wanted = table_.jobs().at("a").WantsProbe();
  ASSERT_TRUE(wanted.has_value());
  EXPECT_THAT(wanted->endpoints, testing::Contains("node3:30001"));
}

TEST_F(SpareTest, NothingFormsWhileItMayContinue) {
  EXPECT_EQ(Look(PeerService::State::kSilent), nullptr);
  EXPECT_EQ(Look(PeerService::State::kWithoutJob), nullptr) << "the node is alive, and not here yet";
  EXPECT_EQ(Find<Redirect>(looked_), nullptr);
}

TEST_F(SpareTest, JobMovesToItsNewerGeneration) {
  EXPECT_EQ(Look(PeerService::State::kWithJob, 6), nullptr);
  const Redirect* moved = Find<Redirect>(looked_);
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved->endpoint, "node3:30001");
}

TEST_F(SpareTest, DeadSpareIsNotWaitedFor) { EXPECT_NE(Look(PeerService::State::kGone), nullptr); }

TEST_F(SpareTest, SpareThatIsHereHasSaidWhatItKnows) {
  Join("a", "node3");
  EXPECT_NE(Look(PeerService::State::kWithoutJob), nullptr);
}

Assignment OfNode(const std::string& node, uint64_t number, uint64_t incarnation) {
  Offer offer;
  offer.node_id = offer.host = offer.address = node;
  offer.service_port = 30001;
  Assignment generation = MakeAssignment({number, 10 * number}, {offer}, 0, 0);
  generation.incarnation = incarnation;
  return generation;
}

/// Simulation, seed 10889: all members that this service remembered were dead, and the job continued
/// elsewhere.
TEST_F(HostedJobTableTest, FirstNodeWaitsForTheGenerationOfItsMtrun) {
  ASSERT_NE(Join("a", "node1"), nullptr);
  const uint64_t run = table_.jobs().at("a").incarnation();
  EXPECT_FALSE(table_.AdoptMembership("a", OfNode("node2", 2, run))) << "the job is here";
  Hear("a", 5);
  ASSERT_TRUE(table_.jobs().empty());
  EXPECT_TRUE(table_.AdoptMembership("a", OfNode("node2", 6, run)));
  EXPECT_FALSE(table_.AdoptMembership("a", OfNode("node2", 6, run))) << "the same again";
  EXPECT_FALSE(table_.AdoptMembership("a", OfNode("node3", 5, run))) << "an older one";
  EXPECT_EQ(Join("a", "node4"), nullptr);
  EXPECT_EQ(table_.jobs().at("a").View(now_).generation.number, 6u);
  ProbeResult looked;
  looked.peers.emplace_back().endpoint = "node1:29400";
  looked.peers.back().state = PeerService::State::kSelf;
  looked.dead = {"node1"};
  EXPECT_EQ(Find<Assigned>(table_.Step("a", Event{"", looked}, now_)), nullptr) << "node2 may run it";
  looked.dead = {"node2"};
  const auto effects = table_.Step("a", Event{"", looked}, now_);
  const Assigned* after = Find<Assigned>(effects);
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->assignment().generation.number, 7u);
}

/// A storm (list:own, seed 211): the service held the job for a member of generation 28 that was cut off,
/// while its mtrun was in generation 32 of the run that followed; the next run waited for that member after
/// each restart.
TEST_F(HostedJobTableTest, LaterGenerationOfItsMtrunReplacesTheHeldOne) {
  ASSERT_TRUE(table_.AdoptMembership("a", OfNode("node4", 28, 71)));
  EXPECT_EQ(Join("a", "node1"), nullptr) << "node4 may run it elsewhere";
  EXPECT_FALSE(table_.AdoptMembership("a", OfNode("node2", 27, 70))) << "an older one";
  EXPECT_TRUE(table_.AdoptMembership("a", OfNode("node2", 32, 72)));
  EXPECT_FALSE(table_.AdoptMembership("a", OfNode("node2", 32, 72))) << "the same again";
  EXPECT_NE(Find<Redirect>(Hear("a", 32)), nullptr);
  ASSERT_TRUE(table_.jobs().empty());
  EXPECT_EQ(Join("a", "node3"), nullptr);
  EXPECT_EQ(table_.jobs().at("a").View(now_).generation.number, 32u) << "node2 may run it elsewhere";
}

TEST_F(HostedJobTableTest, GenerationOfAnotherRunReplacesTheOldOne) {
  EXPECT_TRUE(table_.AdoptMembership("a", OfNode("node2", 6, 71)));
  EXPECT_TRUE(table_.AdoptMembership("a", OfNode("node3", 2, 72)));
  EXPECT_EQ(Join("a", "node4"), nullptr);
  EXPECT_EQ(table_.jobs().at("a").View(now_).generation.number, 2u);
}

}  // namespace
}  // namespace mtrun::rendezvous
