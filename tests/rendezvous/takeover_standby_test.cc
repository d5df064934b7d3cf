// Services in the mtruns of members: which one keeps a job, and which one takes it over from a dead host.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/takeover.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

/// These nodes come from a host that was in contact with them shortly before.
Roster Leased(const std::vector<std::string>& nodes) {
  Roster roster = Here(nodes);
  for (const std::string& node : nodes)
    roster.Change(node, [](RosterNode& entry) { entry.with_host = true; });
  return roster;
}

/// Three nodes, each with a service that may take over.
GenerationRecord WithServicesOfMembers() {
  Assignment assignment = MakeGeneration(1, {"node1", "node2", "node3"});
  for (Member& member : assignment.members) member.service_port = 4000 + member.node_rank;
  GenerationRecord generation;
  generation.Begin(std::move(assignment));
  return generation;
}

/// R4.
TEST(TakeoverQuorum, ServiceThatFormedTheGenerationKeepsIt) {
  const GenerationRecord generation = WithServicesOfMembers();
  TakeoverQuorum quorum(JobSettings(), {"node1:29400", /*embedded=*/true, /*standby=*/false});
  quorum.OnFollowed({kNone, Here({}), kNobodyGone}, *generation.last());
  EXPECT_FALSE(quorum.Applies(generation));
  EXPECT_EQ(WhyNot(quorum, generation, Here({})), "");
  EXPECT_THAT(quorum.Endpoints(generation), ::testing::IsEmpty());
  EXPECT_EQ(WhyNot(quorum, kNone, Here({"node1"})), "") << "it begins";
}

/// R4, R7.
TEST(TakeoverQuorum, FreshServiceAtTheEndpointActsAsAMembersService) {
  const GenerationRecord generation = WithServicesOfMembers();
  TakeoverQuorum quorum(JobSettings(), {"node1:29400", true, false});
  quorum.OnLearned(std::nullopt, *generation.last());
  EXPECT_TRUE(quorum.Applies(generation));
  EXPECT_THAT(quorum.Endpoints(generation),
              ::testing::ElementsAre("node1:29400", "10.0.0.1:4000", "10.0.0.1:4001", "10.0.0.1:4002"));
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node1"})), HasSubstr("node2, node3 are not here"));
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node2", "node3"})), "");
  EXPECT_FALSE(quorum.Applies(Running(1, {"node1", "node2"}))) << "their members cannot take over";
  TakeoverQuorum alone(JobSettings(), {"node1:29400", /*embedded=*/false, false});
  EXPECT_FALSE(alone.Applies(generation)) << "nobody takes the place of a service that stands alone";
}

/// R4, R7.
TEST(TakeoverQuorum, StandbyServesOnlyNodesThatItCanTakeOver) {
  TakeoverQuorum quorum(JobSettings(), {"node1:29400", true, /*standby=*/true});
  EXPECT_THAT(WhyNot(quorum, kNone, Here({"node2"})), HasSubstr("knows of none"));
  EXPECT_THAT(quorum.Endpoints(kNone), ::testing::ElementsAre("node1:29400"));
  const GenerationRecord generation = WithServicesOfMembers();
  Departures dead = kNobodyGone;
  dead.OnDead("node1");
  EXPECT_EQ(WhyNot(quorum, generation, Leased({"node2", "node3"}), dead), "");
  EXPECT_THAT(WhyNot(quorum, generation, Leased({"node2"}), dead), HasSubstr("node3 is not here"))
      << "node1 and node3 may have gone on together before node1 died";
  // Simulation, seed 500208077.
  Departures evicted = kNobodyGone;
  evicted.OnEvicted("node1");
  EXPECT_THAT(WhyNot(quorum, generation, Leased({"node2"}), evicted), HasSubstr("node3 is not here"))
      << "nor does an operator know with whom node1 has gone on";
  dead.OnEvicted("node3");
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node2"}), dead), "");
  quorum.OnFollowed({kNone, Here({}), kNobodyGone}, *generation.last());
  EXPECT_FALSE(quorum.Applies(generation));
  EXPECT_THAT(quorum.Endpoints(generation), ::testing::ElementsAre("node1:29400"))
      << "who starts afresh there is to hear of it";
}

/// R11. Its members do not know where the job is now; the service at the endpoint does, or will learn it.
TEST(TakeoverQuorum, StandbyThatIsBehindYieldsToTheEndpoint) {
  const GenerationRecord generation = WithServicesOfMembers();
  const auto successor = [&](uint64_t heard, bool standby, State state = State::kWithoutJob,
                             const std::vector<std::string>& nodes = {"node2"}) {
    TakeoverQuorum quorum(JobSettings(), {"node1:29400", /*embedded=*/true, standby});
    PeerService peer = Peer(1, state);
    peer.endpoint = "node1:29400";
    peer.last_number = heard;
    quorum.OnProbed({peer}, kRun, TimePoint(), TimePoint());
    Roster here = Leased(nodes);
    here.Follow(generation.last());
    const PeerService* found = quorum.FindSuccessor({generation, here, kNobodyGone});
    return found == nullptr ? "" : found->endpoint;
  };
  const uint64_t own = generation.id().number;
  EXPECT_EQ(successor(own + 1, /*standby=*/true), "node1:29400");
  EXPECT_EQ(successor(own, true), "node1:29400") << "it holds, and others may have the rest";
  EXPECT_EQ(successor(own - 1, true), "");
  EXPECT_EQ(successor(own, true, State::kWithoutJob, {"node2", "node3"}), "") << "it has authority";
  EXPECT_EQ(successor(own + 1, true, State::kWithoutJob, {"node2", "node3"}), "node1:29400");
  EXPECT_EQ(successor(own + 1, true, State::kSilent), "");
  EXPECT_EQ(successor(own + 1, /*standby=*/false), "");
}

/// R7, with halves.
TEST(TakeoverQuorum, MajorityCanBeRequiredOfEveryService) {
  JobSettings settings;
  settings.takeover_majority = true;
  TakeoverQuorum quorum(settings, {"node1:29400", true, false});
  const GenerationRecord generation = WithServicesOfMembers();
  quorum.OnFollowed({kNone, Here({}), kNobodyGone}, *generation.last());
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node1"})), HasSubstr("node2, node3 are not here"));
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node1", "node2"})), "");
  Departures left = kNobodyGone;
  left.OnLeft("node3");
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node1"}), left), "") << "half, with the lowest rank";
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node2"}), left), HasSubstr("node1 is not here"));
}

/// R8. The members had been cut off from a host for so long that it may have continued with a spare before it
/// died.
TEST(TakeoverQuorum, MembersThatHadLostTheirHostDoNotTakeOverFromIt) {
  const TakeoverQuorum::Role standby{"node1:29400", /*embedded=*/true, /*standby=*/true};
  TakeoverQuorum quorum(JobSettings(), standby);
  const GenerationRecord generation = WithServicesOfMembers();
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node1", "node2", "node3"})),
              HasSubstr("start mtrun there again"))
      << "the host need not be a member";
  Departures dead = kNobodyGone;
  dead.OnDead("node1");
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node2", "node3"}), dead), HasSubstr("had lost their host"));
  Roster one_heard = Here({"node2", "node3"});
  one_heard.Change("node3", [](RosterNode& node) { node.with_host = true; });
  EXPECT_EQ(WhyNot(quorum, generation, one_heard, dead), "") << "the host had not gone on without this one";
  Departures evicted = dead;
  evicted.OnEvicted("node1");
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node2", "node3"}), evicted), "") << "an operator's word";
  JobSettings majority;
  majority.takeover_majority = true;
  EXPECT_EQ(WhyNot(TakeoverQuorum(majority, standby), generation, Here({"node2", "node3"}), dead), "")
      << "the host needed the members too";
}

/// R8. Simulation, seed 8642: the host had the lowest rank, continued without the member that was cut off, and
/// died.
TEST(TakeoverQuorum, MinorityThatHadLostItsHostDoesNotTakeOverFromIt) {
  JobSettings settings;
  settings.takeover_majority = true;
  const TakeoverQuorum quorum(settings, {"node1:29400", /*embedded=*/true, /*standby=*/true});
  const GenerationRecord generation = WithServicesOfMembers();
  Departures dead = kNobodyGone;
  dead.OnDead("node1");
  dead.OnDead("node2");
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node3"}), dead), HasSubstr("had lost their host"));
  EXPECT_EQ(WhyNot(quorum, generation, Leased({"node3"}), dead), "") << "the host had not gone on without it";
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node1", "node3"})), "") << "most of them, whoever died";
  dead.OnEvicted("node1");
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node3"}), dead), "") << "an operator's word";
}

TEST(TakeoverQuorum, MembersThatHadLostTheirHostMoveToAFreshServiceAtTheEndpoint) {
  const GenerationRecord generation = WithServicesOfMembers();
  const auto successor = [&](const Roster& roster, State state) -> std::string {
    TakeoverQuorum quorum(JobSettings(), {"node1:29400", /*embedded=*/true, /*standby=*/true});
    PeerService peer = Peer(1, state);
    peer.endpoint = "node1:29400";
    quorum.OnProbed({peer}, kRun, TimePoint(), TimePoint());
    Roster here = roster;
    here.Follow(generation.last());
    const PeerService* found = quorum.FindSuccessor({generation, here, kNobodyGone});
    return found == nullptr ? "" : found->endpoint;
  };
  EXPECT_EQ(successor(Here({"node2"}), State::kWithoutJob), "node1:29400");
  EXPECT_EQ(successor(Here({"node2"}), State::kSilent), "");
  EXPECT_EQ(successor(Leased({"node2"}), State::kWithoutJob), "");
}

}  // namespace
}  // namespace mtrun::rendezvous
