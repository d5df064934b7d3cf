#include "rendezvous/takeover_quorum.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;
using ::testing::HasSubstr;

JobSettings WithServices(int count, bool takeover_any = false) {
  JobSettings settings;
  for (int i = 1; i <= count; ++i) settings.endpoints.push_back("service" + std::to_string(i));
  settings.takeover_any = takeover_any;
  return settings;
}

PeerService Peer(int number, State state, uint64_t generation = 0, bool authority = false) {
  PeerService peer;
  peer.endpoint = "service" + std::to_string(number);
  peer.state = state;
  peer.generation = Generation{generation, generation * 11};
  peer.authority = authority;
  return peer;
}

TakeoverQuorum Seen(const std::vector<PeerService>& peers) {
  TakeoverQuorum quorum(WithServices(static_cast<int>(peers.size())));
  quorum.OnProbed(peers);
  return quorum;
}

const Departures kNobodyGone{JobSettings()};

std::string WhyNot(const TakeoverQuorum& quorum, const GenerationRecord& generation, const Roster& roster,
                   const Departures& departures = kNobodyGone) {
  return quorum.WhyNot(generation, roster, departures).value_or("");
}

const GenerationRecord kNone;

TEST(TakeoverQuorum, TheOnlyServiceAlwaysMay) {
  EXPECT_EQ(WhyNot(TakeoverQuorum(WithServices(1)), Running(1, {"node1", "node2"}), Here({})), "");
  EXPECT_EQ(WhyNot(TakeoverQuorum(WithServices(2, true)), Running(1, {"node1", "node2"}), Here({})), "");
}

TEST(TakeoverQuorum, TheFirstServiceBeginsOnceAllOthersHaveAnswered) {
  EXPECT_THAT(WhyNot(TakeoverQuorum(WithServices(2)), kNone, Here({"node1"})), HasSubstr("probing"));
  const auto why_not = [](const std::vector<PeerService>& peers) {
    return WhyNot(Seen(peers), kNone, Here({"node1"}));
  };
  const PeerService self = Peer(1, State::kSelf);
  EXPECT_EQ(why_not({self, Peer(2, State::kWithoutJob)}), "");
  EXPECT_EQ(why_not({self, Peer(2, State::kGone), Peer(3, State::kWithJob)}), "");
  EXPECT_THAT(why_not({self, Peer(2, State::kGone), Peer(3, State::kSilent)}),
              HasSubstr("service3 does not answer"));
  EXPECT_THAT(why_not({self, Peer(2, State::kWithJob, 4)}), HasSubstr("the job is at service2"));
  EXPECT_THAT(why_not({Peer(1, State::kGone), Peer(2, State::kSelf)}), HasSubstr("begins at service1"));
}

TEST(TakeoverQuorum, LaterItNeedsMoreThanHalfOfThoseThatMayBeAlive) {
  const GenerationRecord generation = Running(1, {"node1", "node2", "node3", "node4"});
  const TakeoverQuorum quorum(WithServices(2));
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node1", "node2"})), HasSubstr("node3, node4 are not here"));
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node1", "node2", "node3"})), "");
  Departures left = kNobodyGone;
  left.OnLeft("node4");
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node1", "node2"}), left), "");
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node1"}), left), HasSubstr("node2, node3 are not here"));
}

Departures AllDead(const GenerationRecord& generation) {
  Departures dead = kNobodyGone;
  for (const Member& member : generation.last()->members) dead.OnDead(member.node_id);
  return dead;
}

TEST(TakeoverQuorum, WhereNobodyIsLeftTheFirstServiceThatIsThereBeginsAgain) {
  const GenerationRecord generation = Running(1, {"node1", "node2"});
  const auto why_not = [&](const std::vector<PeerService>& peers) {
    return WhyNot(Seen(peers), generation, Here({"node3"}), AllDead(generation));
  };
  const PeerService first = Peer(1, State::kSelf), second = Peer(2, State::kSelf);
  EXPECT_THAT(WhyNot(TakeoverQuorum(WithServices(2)), generation, Here({}), AllDead(generation)),
              HasSubstr("probing"));
  EXPECT_EQ(why_not({first, Peer(2, State::kWithJob, 1)}), "");
  EXPECT_EQ(why_not({first, Peer(2, State::kGone)}), "");
  EXPECT_THAT(why_not({first, Peer(2, State::kSilent)}), HasSubstr("service2 does not answer"));
  EXPECT_THAT(why_not({first, Peer(2, State::kWithJob, 2)}), HasSubstr("goes on at service2"));
  EXPECT_EQ(why_not({Peer(1, State::kGone), second}), "");
  EXPECT_THAT(why_not({Peer(1, State::kSilent), second}), HasSubstr("service1 does not answer"));
  EXPECT_THAT(why_not({Peer(1, State::kWithoutJob), second}), HasSubstr("goes on at service1"));
}

TEST(TakeoverQuorum, ANodeThatIsOnlyExpectedIsNotRegistered) {
  const GenerationRecord generation = Running(1, {"node1", "node2"});
  Roster roster = Here({"node1"});
  roster.Expect(generation.last()->members[1], TimePoint(), TimePoint());
  EXPECT_EQ(TakeoverQuorum(WithServices(2)).Unaccounted(generation, roster, kNobodyGone).size(), 1u);
}

std::string Successor(const std::vector<PeerService>& peers, const GenerationRecord& generation,
                      const Roster& roster, const Departures& departures = kNobodyGone) {
  const TakeoverQuorum quorum = Seen(peers);
  const PeerService* peer = quorum.FindSuccessor(generation, roster, departures);
  return peer == nullptr ? "" : peer->endpoint;
}

TEST(TakeoverQuorum, WithoutAGenerationTheJobIsWhereOneIsOrWithTheFirstThatAnswers) {
  const Roster roster = Here({"node1"});
  EXPECT_EQ(Successor({Peer(1, State::kWithoutJob), Peer(2, State::kSelf)}, kNone, roster), "service1");
  EXPECT_EQ(Successor({Peer(1, State::kSilent), Peer(2, State::kSelf)}, kNone, roster), "");
  EXPECT_EQ(Successor({Peer(1, State::kSelf), Peer(2, State::kWithJob, 3)}, kNone, roster), "service2");
  EXPECT_EQ(Successor({Peer(1, State::kSelf), Peer(2, State::kWithoutJob)}, kNone, roster), "");
}

TEST(TakeoverQuorum, AServiceThatHoldsGivesWayToANewerOrAnAuthority) {
  const GenerationRecord generation = Running(2, {"node1", "node2", "node3"});
  const Roster roster = Here({"node1"});
  const auto from_first = [&](const PeerService& other) {
    return Successor({Peer(1, State::kSelf), other}, generation, roster);
  };
  EXPECT_EQ(from_first(Peer(2, State::kWithJob, 1)), "");
  EXPECT_EQ(from_first(Peer(2, State::kWithJob, 2)), "") << "of two that hold the first one stays";
  EXPECT_EQ(from_first(Peer(2, State::kWithJob, 2, true)), "service2");
  EXPECT_EQ(from_first(Peer(2, State::kWithJob, 3)), "service2");
  EXPECT_EQ(Successor({Peer(1, State::kWithJob, 2), Peer(2, State::kSelf)}, generation, roster), "service1");
}

TEST(TakeoverQuorum, WhereNobodyIsLeftTheNodesMoveToTheFirstServiceThatIsThere) {
  const GenerationRecord generation = Running(2, {"node1"});
  const Roster roster = Here({"node2"});
  const Departures dead = AllDead(generation);
  EXPECT_EQ(Successor({Peer(1, State::kWithoutJob), Peer(2, State::kSelf)}, generation, roster, dead),
            "service1");
  EXPECT_EQ(Successor({Peer(1, State::kGone), Peer(2, State::kSelf)}, generation, roster, dead), "");
  EXPECT_EQ(Successor({Peer(1, State::kSelf), Peer(2, State::kWithoutJob)}, generation, roster, dead), "");
}

TEST(TakeoverQuorum, OfTwoAuthoritiesTheNewerStays) {
  const GenerationRecord generation = Running(2, {"node1"});
  const Roster roster = Here({"node1"});
  const PeerService self = Peer(1, State::kSelf);
  EXPECT_EQ(Successor({self, Peer(2, State::kWithJob, 3, true)}, generation, roster), "service2");
  EXPECT_EQ(Successor({self, Peer(2, State::kWithJob, 3, false)}, generation, roster), "");
  EXPECT_EQ(Successor({self, Peer(2, State::kWithJob, 1, true)}, generation, roster), "");
}

TEST(TakeoverQuorum, AsksAboutMembersThatAreMissing) {
  const auto missing =
      TakeoverQuorum(WithServices(2)).Missing(Running(1, {"node1", "node2"}), Here({"node1"}), kNobodyGone);
  EXPECT_THAT(missing, ::testing::ElementsAre(::testing::Pair("node2", PresenceProbe{"10.0.0.1:7000", 77})));
}

TEST(TakeoverQuorum, IsAValue) {
  TakeoverQuorum a(WithServices(2)), b = a;
  EXPECT_EQ(a, b);
  b.OnProbed({Peer(1, State::kSelf), Peer(2, State::kWithJob, 3, true)});
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(),
            "takeover by majority, services {service1 self, service2 with the job 3 authority}");
}

}  // namespace
}  // namespace mtrun::rendezvous
