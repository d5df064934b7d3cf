#include "rendezvous/authority/takeover_quorum.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/job/state_machine.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/takeover.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

JobSettings WithServices(int count, bool takeover_any = false) {
  JobSettings settings;
  for (int i = 1; i <= count; ++i) settings.endpoints.push_back("service" + std::to_string(i));
  settings.takeover_any = takeover_any;
  return settings;
}

TakeoverQuorum Seen(const std::vector<PeerService>& peers) {
  TakeoverQuorum quorum(WithServices(static_cast<int>(peers.size())));
  quorum.OnProbed(peers, kRun, TimePoint(), TimePoint());
  return quorum;
}

/// R4.
TEST(TakeoverQuorum, OnlyServiceAlwaysHasTheQuorum) {
  EXPECT_EQ(WhyNot(TakeoverQuorum(WithServices(1)), Running(1, {"node1", "node2"}), Here({})), "");
  EXPECT_EQ(WhyNot(TakeoverQuorum(WithServices(2, true)), Running(1, {"node1", "node2"}), Here({})), "");
}

/// R5.
TEST(TakeoverQuorum, FirstServiceStartsOnceAllOthersHaveAnswered) {
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
  const PeerService second = Peer(2, State::kSelf);
  EXPECT_THAT(why_not({Peer(1, State::kWithoutJob), second}), HasSubstr("begins at service1"));
  EXPECT_THAT(why_not({Peer(1, State::kSilent), second}), HasSubstr("begins at service1"));
  EXPECT_EQ(why_not({Peer(1, State::kGone), second}), "") << "it died before the job began";
  EXPECT_THAT(why_not({Peer(1, State::kGone), Peer(2, State::kWithoutJob), Peer(3, State::kSelf)}),
              HasSubstr("begins at service2"));
}

/// R7.
TEST(TakeoverQuorum, NeedsAMajorityOfMembersThatMayBeAlive) {
  const GenerationRecord generation = Running(1, {"node1", "node2", "node3", "node4"});
  const TakeoverQuorum quorum(WithServices(2));
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node3", "node4"})), HasSubstr("node1, node2 are not here"));
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node1", "node2"})), HasSubstr("node3, node4 are not here"));
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node2", "node3", "node4"})), "");
  Departures left = kNobodyGone;
  left.OnLeft("node4");
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node1", "node2"}), left), "");
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node1"}), left),
              AllOf(HasSubstr("node2, node3 are not here"), HasSubstr("mtrun --evict NODE ENDPOINT")));
  left.OnEvicted("node2");
  EXPECT_THAT(WhyNot(quorum, generation, Here({"node3"}), left), HasSubstr("node1 is not here"));
  left.OnEvicted("node3");
  EXPECT_EQ(WhyNot(quorum, generation, Here({"node1"}), left), "");
}

/// R9. The member could turn to another service, which does not know of the next generation, before it is
/// notified.
TEST(TakeoverQuorum, ConnectedMemberThatWouldBeLeftOutCountsAsMissing) {
  const GenerationRecord generation = Running(1, {"node1", "node2", "node3"});
  const Roster here = HereAfter(generation, {"node1", "node2", "node3", "node4"});
  const auto why_not = [&](const std::vector<std::string>& nodes, const Departures& departures = kNobodyGone,
                           TakeoverQuorum quorum = TakeoverQuorum(WithServices(2))) {
    const MembershipView view{generation, here, departures};
    EXPECT_TRUE(quorum.Authority(view).granted()) << "of some nodes it may";
    return Describe(quorum.RightToForm(nodes, view), view);
  };
  EXPECT_EQ(why_not({"node1", "node2", "node4"}), "") << "more than half";
  EXPECT_THAT(why_not({"node1", "node4"}),
              AllOf(HasSubstr("waiting for node2, node3 to be ready"), HasSubstr("without them")));
  Departures gone = kNobodyGone;
  gone.OnLeft("node2");
  EXPECT_THAT(why_not({"node1", "node4"}, gone), HasSubstr("waiting for node3 to be ready: without it"));
  gone.OnDead("node3");
  EXPECT_EQ(why_not({"node1", "node4"}, gone), "") << "it cannot turn to another one any more";
  for (const TakeoverQuorum& other : {TakeoverQuorum(WithServices(1)), TakeoverQuorum(WithServices(2, true))})
    EXPECT_EQ(why_not({"node4"}, kNobodyGone, other), "");
}

PeerService OfRun(PeerService peer, uint64_t incarnation, RunProof proof = RunProof::kNone) {
  peer.incarnation = incarnation;
  peer.proof = proof;
  return peer;
}

TEST(TakeoverQuorum, ServiceWithAnotherRunCountsAsWithoutTheJob) {
  JobRun run(9, TimePoint());
  const GenerationRecord generation = Running(1, {"node1", "node2"});
  TakeoverQuorum quorum(WithServices(2));
  const std::vector<PeerService> peers = {OfRun(Peer(1, State::kWithJob, 7, true), 8), Peer(2, State::kSelf)};
  quorum.OnProbed(peers, run, TimePoint(), TimePoint());
  const Roster here = HereAfter(generation, {"node1", "node2"});
  EXPECT_NE(quorum.FindSuccessor({generation, here, kNobodyGone}), nullptr)
      << "nobody knows yet which of them goes on";
  run.Prove(RunProof::kMembers);
  quorum.OnProbed(peers, run, TimePoint(), TimePoint());
  EXPECT_EQ(quorum.FindSuccessor({generation, here, kNobodyGone}), nullptr);
}

PeerService WithEnd(EndedRun run) {
  PeerService peer = Peer(1, State::kWithoutJob);
  peer.ended = {run};
  return peer;
}

TEST(TakeoverQuorum, YieldsWhereItsRunEndedOrAnotherRunIsProven) {
  JobRun run(9, TimePoint());
  const GenerationRecord generation = Running(3, {"node1", "node2"});
  const auto where = [&](const PeerService& peer, bool authority = false) -> std::string {
    TakeoverQuorum quorum(WithServices(2));
    quorum.OnProbed({peer, Peer(2, State::kSelf)}, run, TimePoint(), TimePoint());
    const PeerService* over = quorum.FindWhereOver(generation, run, authority, TimePoint());
    return over == nullptr ? "" : over->endpoint;
  };
  EXPECT_EQ(where(WithEnd({9, 3, false})), "service1") << "it has ended there";
  EXPECT_EQ(where(WithEnd({9, 3, false}), /*authority=*/true), "") << "it goes on here";
  EXPECT_EQ(where(WithEnd({9, 2, true}), /*authority=*/true), "") << "nor had it heard of this generation";
  EXPECT_EQ(where(WithEnd({9, 3, true}), /*authority=*/true), "service1") << "all members have finished";
  EXPECT_EQ(where(WithEnd({9, 4, false}), /*authority=*/true), "service1") << "it had a newer generation";
  EXPECT_EQ(where(WithEnd({8, 3, true})), "") << "another one has ended";
  EXPECT_EQ(where(Peer(1, State::kWithoutJob)), "");
  PeerService used_again = OfRun(Peer(1, State::kWithJob, 1), 8);
  used_again.ended = {{9, 3, false}};
  EXPECT_EQ(where(used_again), "service1") << "its id is used again there";
  EXPECT_EQ(where(OfRun(Peer(1, State::kWithJob, 1), 8, RunProof::kMembers), true), "service1");
  EXPECT_EQ(where(OfRun(Peer(1, State::kWithJob, 1), 8)), "") << "that service has only heard of it";
  EXPECT_EQ(where(OfRun(Peer(1, State::kWithJob, 1), 9, RunProof::kMembers)), "") << "the same run";
  run.Prove(RunProof::kMembers);
  EXPECT_EQ(where(OfRun(Peer(1, State::kWithJob, 1), 8, RunProof::kMembers)), "") << "this one goes on";
  EXPECT_EQ(where(used_again), "service1");
  EXPECT_EQ(where(OfRun(Peer(1, State::kWithJob, 1), 8, RunProof::kFormed)), "service1");
}

Departures AllDead(const GenerationRecord& generation) {
  Departures dead = kNobodyGone;
  for (const Member& member : generation.last()->members) dead.OnDead(member.node_id);
  return dead;
}

/// R6.
TEST(TakeoverQuorum, FirstPresentServiceRestartsIfAllMembersAreGone) {
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
  EXPECT_THAT(why_not({first, Peer(2, State::kWithJob, 2)}), HasSubstr("continues at service2"));
  EXPECT_EQ(why_not({Peer(1, State::kGone), second}), "");
  EXPECT_THAT(why_not({Peer(1, State::kSilent), second}), HasSubstr("service1 does not answer"));
  EXPECT_THAT(why_not({Peer(1, State::kWithoutJob), second}), HasSubstr("continues at service1"));
}

/// R6.
TEST(TakeoverQuorum, ServiceOfAnEvictedNodeIsNotAwaited) {
  GenerationRecord generation = Running(1, {"node1.example.org"});  // at 10.0.0.1
  Departures evicted = kNobodyGone;
  evicted.OnEvicted("node1.example.org");
  const auto why_not = [&](const std::string& endpoint, const Departures& departures) {
    PeerService silent = Peer(2, State::kSilent);
    silent.endpoint = endpoint;
    return WhyNot(Seen({Peer(1, State::kSelf), silent}), generation, Here({"node3"}), departures);
  };
  for (const char* its : {"10.0.0.1:29400", "node1.example.org:29400", "node1:29400", "node1"})
    EXPECT_EQ(why_not(its, evicted), "") << its;
  for (const char* other : {"10.0.0.2:29400", "node:29400", "node1.example.com:29400", "10:29400"})
    EXPECT_THAT(why_not(other, evicted), HasSubstr("does not answer")) << other;
  EXPECT_THAT(why_not("10.0.0.1:29400", AllDead(generation)), HasSubstr("does not answer"))
      << "its host may be there, and the service on it a program of its own";
}

/// The knowledge of one of several services if no member of the generation is left.
struct Side {
  uint64_t generation = 0;  // the newest that it knows; 0: it does not have the job
  std::vector<State> sees;  // states of the services
};

/// Returns whether it may form the next generation.
bool MayGoOn(const Side& side, const std::vector<Side>& all) {
  if (side.generation == 0) return false;  // before the first one: see above
  std::vector<PeerService> peers;
  for (size_t i = 0; i < all.size(); ++i)
    peers.push_back(Peer(static_cast<int>(i) + 1, side.sees[i], all[i].generation));
  const GenerationRecord generation = Running(side.generation, {"node1", "node2"});
  return WhyNot(Seen(peers), generation, Here({"newcomer"}), AllDead(generation)).empty();
}

/// R6. Every service is up, and each link between two may be cut in either direction or not at all.
TEST(TakeoverQuorum, AtMostOneSideOfACutContinuesIfAllMembersAreGone) {
  int went_on = 0;
  for (const size_t count : {2, 3}) {
    const size_t links = count * (count - 1);
    for (unsigned known = 0; known < (count == 2 ? 9u : 27u); ++known) {
      for (unsigned cuts = 0; cuts < 1u << links; ++cuts) {
        std::vector<Side> sides(count);
        unsigned digits = known;
        for (Side& side : sides) side.generation = digits % 3, digits /= 3;
        unsigned link = 0;
        for (size_t i = 0; i < count; ++i) {
          for (size_t j = 0; j < count; ++j) {
            const State answer = sides[j].generation > 0 ? State::kWithJob : State::kWithoutJob;
            const bool cut = i != j && (cuts >> link++ & 1) != 0;
            sides[i].sees.push_back(i == j ? State::kSelf : cut ? State::kSilent : answer);
          }
        }
        const auto may =
            std::count_if(sides.begin(), sides.end(), [&](const Side& side) { return MayGoOn(side, sides); });
        EXPECT_LE(may, 1) << count << " services, knowledge " << known << ", cuts " << cuts;
        went_on += static_cast<int>(may);
      }
    }
  }
  EXPECT_GT(went_on, 0);
}

TEST(TakeoverQuorum, MembersDecideOnlyForOneOfSeveralServices) {
  using Ground = FormationRight::Ground;
  const GenerationRecord generation = Running(1, {"node1", "node2", "node3"});
  const auto ground = [](const TakeoverQuorum& quorum, const GenerationRecord& last, const Roster& roster,
                         const Departures& departures = kNobodyGone) {
    return quorum.Authority({last, roster, departures}).ground;
  };
  const TakeoverQuorum quorum(WithServices(2));
  EXPECT_EQ(ground(quorum, generation, HereAfter(generation, {"node1"})), Ground::kMembersMissing);
  EXPECT_EQ(ground(quorum, generation, HereAfter(generation, {"node1", "node2"})), Ground::kMembers);
  EXPECT_EQ(ground(quorum, kNone, HereAfter(kNone, {"node1", "node2"})), Ground::kNotProbed);
  EXPECT_EQ(ground(quorum, generation, HereAfter(generation, {"newcomer"}), AllDead(generation)),
            Ground::kNotProbed);
  for (const TakeoverQuorum& other : {TakeoverQuorum(WithServices(1)), TakeoverQuorum(WithServices(2, true))})
    EXPECT_EQ(ground(other, generation, HereAfter(generation, {"node1", "node2"})), Ground::kOnlyService);
}

/// R7.
TEST(TakeoverQuorum, ExpectedNodeIsNotRegistered) {
  const GenerationRecord generation = Running(1, {"node1", "node2"});
  Roster roster = HereAfter(generation, {"node1"});
  roster.Expect(generation.last()->members[1], TimePoint(), TimePoint());
  EXPECT_EQ(TakeoverQuorum(WithServices(2)).Unaccounted({generation, roster, kNobodyGone}).size(), 1u);
}

std::string Successor(const std::vector<PeerService>& peers, const GenerationRecord& generation,
                      Roster roster, const Departures& departures = kNobodyGone) {
  roster.Follow(generation.last());
  const TakeoverQuorum quorum = Seen(peers);
  const PeerService* peer = quorum.FindSuccessor({generation, roster, departures});
  return peer == nullptr ? "" : peer->endpoint;
}

/// R11.
TEST(TakeoverQuorum, SuccessorIsAServiceWithAGenerationOrTheFirstToAnswer) {
  const Roster roster = Here({"node1"});
  EXPECT_EQ(Successor({Peer(1, State::kWithoutJob), Peer(2, State::kSelf)}, kNone, roster), "service1");
  EXPECT_EQ(Successor({Peer(1, State::kSilent), Peer(2, State::kSelf)}, kNone, roster), "");
  EXPECT_EQ(Successor({Peer(1, State::kSelf), Peer(2, State::kWithJob, 3)}, kNone, roster), "service2");
  EXPECT_EQ(Successor({Peer(1, State::kSelf), Peer(2, State::kWithoutJob)}, kNone, roster), "");
}

/// R11.
TEST(TakeoverQuorum, HoldingServiceYieldsToANewerGenerationOrAnAuthority) {
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

TEST(TakeoverQuorum, NodesMoveToTheFirstPresentServiceIfAllMembersAreGone) {
  const GenerationRecord generation = Running(2, {"node1"});
  const Roster roster = Here({"node2"});
  const Departures dead = AllDead(generation);
  EXPECT_EQ(Successor({Peer(1, State::kWithoutJob), Peer(2, State::kSelf)}, generation, roster, dead),
            "service1");
  EXPECT_EQ(Successor({Peer(1, State::kGone), Peer(2, State::kSelf)}, generation, roster, dead), "");
  EXPECT_EQ(Successor({Peer(1, State::kSelf), Peer(2, State::kWithoutJob)}, generation, roster, dead), "");
}

/// R11. The last generation defines the members; all others of an older one may be dead.
TEST(TakeoverQuorum, AuthorityYieldsToANewerGeneration) {
  const GenerationRecord generation = Running(2, {"node1"});
  const Roster roster = Here({"node1"});
  const PeerService self = Peer(1, State::kSelf);
  EXPECT_EQ(Successor({self, Peer(2, State::kWithJob, 3, true)}, generation, roster), "service2");
  EXPECT_EQ(Successor({self, Peer(2, State::kWithJob, 3, false)}, generation, roster), "service2");
  EXPECT_EQ(Successor({self, Peer(2, State::kWithJob, 2, true)}, generation, roster), "");
  EXPECT_EQ(Successor({self, Peer(2, State::kWithJob, 1, true)}, generation, roster), "");
}

TEST(TakeoverQuorum, ProbesMissingMembers) {
  const GenerationRecord generation = Running(1, {"node1", "node2"});
  const Roster here = HereAfter(generation, {"node1"});
  const auto missing = TakeoverQuorum(WithServices(2)).Missing({generation, here, kNobodyGone});
  EXPECT_THAT(missing, ::testing::ElementsAre(::testing::Pair("node2", PresenceProbe{"10.0.0.1:7000", 77})));
}

TEST(TakeoverQuorum, IsAValue) {
  TakeoverQuorum a(WithServices(2)), b = a;
  EXPECT_EQ(a, b);
  b.OnProbed({Peer(1, State::kSelf), Peer(2, State::kWithJob, 3, true)}, kRun, TimePoint(), TimePoint());
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(),
            "takeover by majority, services {service1 self, service2 with the job 3 authority}");
}

/// R6. A service forgets a generation that it read from a file only if it knows of the others what is now.
TEST(TakeoverQuorum, NothingIsLeftIfAllMembersAreGoneAndTheServicesWereJustHeard) {
  const TimePoint heard = TimePoint(std::chrono::seconds(100));
  const GenerationRecord generation = Running(1, {"node1", "node2"});
  const Roster roster = HereAfter(generation, {});
  const auto nothing_left = [&](const TakeoverQuorum& quorum, const Departures& gone, TimePoint now) {
    return quorum.NothingLeft({generation, roster, gone}, now);
  };
  const Departures dead = AllDead(generation);
  const TakeoverQuorum alone(WithServices(1)), any(WithServices(2, /*takeover_any=*/true));
  TakeoverQuorum listed(WithServices(2));
  listed.OnProbed({Peer(1, State::kSelf), Peer(2, State::kGone)}, kRun, heard, heard);
  EXPECT_TRUE(nothing_left(alone, dead, heard));
  EXPECT_FALSE(nothing_left(alone, kNobodyGone, heard));
  EXPECT_TRUE(nothing_left(listed, dead, heard + TakeoverQuorum::kMaxAge));
  EXPECT_FALSE(nothing_left(listed, dead, heard + TakeoverQuorum::kMaxAge + Duration(1)));
  EXPECT_FALSE(nothing_left(listed, kNobodyGone, heard));
  EXPECT_FALSE(nothing_left(any, dead, heard)) << "another service needs no member to continue";
  Departures one = kNobodyGone;
  one.OnDead("node1");
  EXPECT_FALSE(nothing_left(alone, one, heard)) << "node2 may still run it";
}

/// R6. A service looks when another one cannot form any more by what it had heard (docs/protocol.md).
TEST(TakeoverQuorum, ProbedStatesExpireWithinHalfOfTheRecoveryWindow) {
  EXPECT_EQ(TakeoverQuorum::kMaxAge, std::chrono::milliseconds(1400));
  EXPECT_LT(2 * TakeoverQuorum::kMaxAge, JobMachine::Options().recovery_window);
}

/// R5, R6.
TEST(TakeoverQuorum, ProbedStatesOfServicesExpire) {
  TakeoverQuorum quorum(WithServices(2));
  const TimePoint seen = TimePoint(std::chrono::seconds(100));
  quorum.OnProbed({Peer(1, State::kGone), Peer(2, State::kSelf)}, kRun, seen, seen);
  EXPECT_FALSE(quorum.Stale(seen + TakeoverQuorum::kMaxAge));
  EXPECT_TRUE(quorum.Stale(seen + TakeoverQuorum::kMaxAge + std::chrono::milliseconds(1)));

  const GenerationRecord generation = Running(1, {"node1"});
  const Roster roster = Here({});
  const Departures all_dead = AllDead(generation);
  EXPECT_TRUE(quorum.DecidedByServices({kNone, roster, kNobodyGone}));
  EXPECT_FALSE(quorum.DecidedByServices({generation, roster, kNobodyGone})) << "its member does";
  EXPECT_TRUE(quorum.DecidedByServices({generation, roster, all_dead}));
  EXPECT_FALSE(TakeoverQuorum(WithServices(1)).DecidedByServices({kNone, roster, kNobodyGone}));
  EXPECT_FALSE(TakeoverQuorum(WithServices(2, true)).DecidedByServices({kNone, roster, kNobodyGone}));
}

}  // namespace
}  // namespace mtrun::rendezvous
