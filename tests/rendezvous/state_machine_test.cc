// Cases that the scripts do not cover: value semantics, reports before the offer, malformed offers.
#include "rendezvous/job/state_machine.h"
#include "rendezvous/wire/job_settings.h"

#include <functional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/cluster_simulation.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobSettings Settings(int min_nodes, int max_nodes, int restarts = 0) {
  JobSettings settings;
  settings.job_id = "job";
  settings.min_nodes = min_nodes;
  settings.max_nodes = max_nodes;
  settings.max_restarts = restarts;
  return settings;
}

std::string Text(const std::vector<std::string>& lines) { return absl::StrJoin(lines, "\n"); }

ClusterSimulation RunningPair(int restarts = 0) {
  ClusterSimulation world(Settings(2, 2, restarts));
  for (const char* node : {"node1", "node2"}) world.Open(node), world.OfferFrom(node);
  return world;
}

TEST(JobMachine, IsAValue) {
  ClusterSimulation a = RunningPair();
  ClusterSimulation b = a;
  EXPECT_TRUE(a.machine() == b.machine());
  EXPECT_EQ(a.Text(), b.Text());
  b.Close("node1");
  EXPECT_FALSE(a.machine() == b.machine());
  a.Close("node1");
  EXPECT_TRUE(a.machine() == b.machine());
}

TEST(JobMachine, EqualityCoversTheWholeState) {
  const JobMachine::Options usual{1, TimePoint(), Duration::zero()};
  JobMachine::Options host_begins = usual;
  host_begins.host_begins = true;
  EXPECT_TRUE(JobMachine(Settings(1, 1), usual) == JobMachine(Settings(1, 1), usual));
  EXPECT_FALSE(JobMachine(Settings(1, 1), usual) == JobMachine(Settings(1, 1), host_begins));
  EXPECT_FALSE(JobMachine(Settings(1, 1), usual) == JobMachine(Settings(1, 2), usual));
  // Differences that only time or a service's answer reveals count as well.
  ClusterSimulation a = RunningPair(), b = a, c = a;
  b.Advance(std::chrono::milliseconds(100));
  b.Beat("node1");
  EXPECT_FALSE(a.machine() == b.machine());
  c.Say("node1", StepsCommitted{c.generation(), 1});
  EXPECT_FALSE(a.machine() == c.machine());
}

/// One more would be refused as malformed by every node, for ever.
TEST(JobMachine, JobWhoseGenerationNumbersAreUsedUpEndsInWords) {
  for (const bool used_up : {false, true}) {
    ClusterSimulation world(Settings(2, 2));
    world.Open("node1", Generation{kMaxGenerationNumber - (used_up ? 0 : 1), 1});
    world.Open("node2");
    world.OfferFrom("node1"), world.OfferFrom("node2");
    EXPECT_EQ(world.machine().outcome().has_value(), used_up) << world.Text();
    if (used_up) {
      EXPECT_THAT(world.machine().outcome()->reason, HasSubstr("--rdzv_id"));
    } else {
      EXPECT_EQ(world.generation().number, kMaxGenerationNumber);
    }
  }
}

TEST(JobMachine, ProbesOftenWhileAMemberIsAwayEvenWithAuthority) {
  JobSettings settings = Settings(1, 3);
  settings.endpoints = {"service1", "service2"};
  Assignment held = MakeGeneration(4, {"node1", "node2", "node3"});
  held.incarnation = 1;
  ClusterSimulation world(settings, std::chrono::seconds(3));
  const auto hold = [&](const std::string& node) {
    world.Open(node, held.generation);
    Offer offer = MakeOffer(node);
    offer.holds = held.generation;
    world.Say(node, OfferSent{offer}, held);
  };
  hold("node2"), hold("node3");
  ASSERT_TRUE(world.machine().WantsProbe().has_value());
  EXPECT_TRUE(world.machine().WantsProbe()->members.contains("node1"));
  EXPECT_EQ(world.machine().ProbeInterval(), JobMachine::kOftenProbe);
  hold("node1");
  EXPECT_EQ(world.machine().ProbeInterval(), JobMachine::kRareProbe);
}

TEST(JobMachine, MemberReportsToANewServiceThatPredecessorsAreSettled) {
  JobSettings settings = Settings(1, 5);
  settings.endpoints = {"service1", "service2"};
  Assignment settled = MakeGeneration(2, {"node1", "node2", "node3"});
  settled.incarnation = 1;
  Assignment held = settled;
  held.earlier = {{Generation{1, 11}, {}, MakeGeneration(1, {"node4", "node5"}).members, {}}};
  ClusterSimulation world(settings, std::chrono::seconds(3));
  const auto settled_at = [&](const std::string& node, const Assignment& assignment) {
    world.Remember(node, assignment);
    world.Open(node, held.generation);
    Offer offer = MakeOffer(node);
    offer.holds = held.generation;
    world.Say(node, OfferSent{offer}, assignment);
    return world.machine().LeaseFor(node, Duration::zero(), TimePoint()).settled;
  };
  EXPECT_EQ(settled_at("node1", held), Generation{});
  ClusterSimulation told = world;
  EXPECT_EQ(settled_at("node2", held), Generation{}) << "two of five know of it";
  EXPECT_EQ(settled_at("node3", held), Generation{}) << "node1 has not said so yet, only that it runs it";
  world.Beat("node1");
  EXPECT_EQ(world.machine().LeaseFor("node1", Duration::zero(), TimePoint()).settled, held.generation);
  world = told;
  EXPECT_EQ(settled_at("node2", settled), held.generation);
}

TEST(JobMachine, WaitingNodeLearnsThatNoOtherNodeContinued) {
  ClusterSimulation world(Settings(2, 2), std::chrono::seconds(3));
  const auto newest_for = [&](const std::string& node) {
    return world.machine().LeaseFor(node, Duration::zero(), world.now()).newest;
  };
  for (const std::string node : {"node1", "node2"}) {
    world.Open(node);
    world.OfferFrom(node, 1);
  }
  world.Advance(std::chrono::seconds(4));
  const Generation first = world.generation();
  ASSERT_EQ(first.number, 1u);
  EXPECT_EQ(newest_for("node1"), Generation{}) << "it runs it";
  world.Leave("node2");
  world.OfferFrom("node1", 1);
  EXPECT_EQ(newest_for("node1"), first);
  for (const std::string node : {"node3", "node4"}) world.Open(node);
  EXPECT_EQ(newest_for("node3"), first) << "which it has never been in";
  world.OfferFrom("node3", 1);
  EXPECT_EQ(world.generation().number, 2u);
  EXPECT_EQ(newest_for("node4"), world.generation());
  EXPECT_EQ(newest_for("node1"), Generation{});
}

/// Nodes that have continued may be on their way to a service that knows only the generation before.
TEST(JobMachine, FreshServiceDoesNotClaimThatNoNodeContinued) {
  ClusterSimulation world(Settings(1, 2), std::chrono::seconds(3));
  Assignment left = MakeGeneration(5, {"node1", "node2"});
  left.incarnation = 1;
  world.Open("node1", left.generation, 0, 0, left);
  const auto newest = [&] { return world.machine().LeaseFor("node1", Duration::zero(), world.now()).newest; };
  ASSERT_EQ(world.machine().generation().id(), left.generation);
  EXPECT_EQ(newest(), Generation{});
  world.Advance(std::chrono::milliseconds(2900));
  EXPECT_EQ(newest(), Generation{});
  world.Advance(std::chrono::milliseconds(200));
  EXPECT_EQ(newest(), left.generation);
}

TEST(JobMachine, ProbesQuicklyAfterTheStreamOfAMemberEnded) {
  ClusterSimulation world = RunningPair();
  ProbeResult looked;
  looked.alive = {"node2"};
  world.Look(looked);
  EXPECT_EQ(world.machine().ProbeInterval(), JobMachine::kOftenProbe);
  world.Close("node2");
  EXPECT_EQ(world.machine().ProbeInterval(), JobMachine::kQuickProbe);
  EXPECT_LE(3 * JobMachine::kQuickProbe, JobSettings().reconnect_grace) << "a few times before it is lost";
}

/// R5. Nodes of a service that has died may be on their way to another one of the list, however long that one
/// has been up.
TEST(JobMachine, ServiceOfAListDoesNotStartAJobRightAfterALoss) {
  using State = PeerService::State;
  JobSettings settings = Settings(1, 1);
  settings.endpoints = {"service1", "service2"};
  JobMachine machine(settings, {1, TimePoint(), std::chrono::seconds(3)});
  const auto at = [](int second) { return TimePoint() + std::chrono::seconds(second); };
  const auto look = [&](State other, int second) {
    ProbeResult looked;
    looked.peers.resize(2);
    looked.peers[0].endpoint = "service1", looked.peers[0].state = other;
    looked.peers[1].endpoint = "service2", looked.peers[1].state = State::kSelf;
    machine.Step(Event{"", looked}, at(second));
    return machine.generation().running();
  };
  machine.Step(Event{"node1", StreamOpened{settings, {}, 0}}, at(100));
  machine.Step(Event{"node1", AgentSaid{OfferSent{MakeOffer("node1")}, {}}}, at(100));
  EXPECT_FALSE(look(State::kGone, 101)) << "at first sight";
  EXPECT_FALSE(look(State::kGone, 103));
  JobMachine lost_for_good = machine;
  EXPECT_TRUE(look(State::kGone, 104));
  machine = lost_for_good;
  EXPECT_FALSE(look(State::kSilent, 104));
  EXPECT_FALSE(look(State::kGone, 105)) << "it may have been there meanwhile";
  EXPECT_FALSE(look(State::kGone, 107));
  EXPECT_TRUE(look(State::kGone, 108));
}

TEST(JobMachine, GenerationIdsDependOnTheSeed) {
  const JobMachine::Options one{1, TimePoint(), Duration::zero()}, two{2, TimePoint(), Duration::zero()};
  const auto first_id = [](const JobMachine::Options& options) {
    JobMachine machine(Settings(1, 1), options);
    machine.Step(Event{"a", StreamOpened{Settings(1, 1), {}, 0}}, TimePoint());
    Offer offer;
    offer.node_id = offer.host = "a";
    machine.Step(Event{"a", AgentSaid{OfferSent{offer}, {}}}, TimePoint());
    return machine.View(TimePoint()).generation.id;
  };
  EXPECT_EQ(first_id(one), first_id(one));
  EXPECT_NE(first_id(one), first_id(two));
}

TEST(JobMachine, OfferInTheNameOfAnotherNodeIsRefused) {
  ClusterSimulation world(Settings(1, 1));
  world.Open("node1");
  Offer offer;
  offer.node_id = "node2";
  EXPECT_THAT(Text(world.Say("node1", OfferSent{offer})), HasSubstr("-> node1: refused"));
  EXPECT_TRUE(world.machine().Gone());
}

TEST(JobMachine, ReportsBeforeTheOfferCountOnceItsGenerationIsAdopted) {
  const Assignment held = RunningPair().assignments().at("node1");
  ClusterSimulation world(Settings(2, 2), std::chrono::seconds(3));
  Offer offer;
  offer.node_id = offer.host = "node1";
  offer.holds = held.generation;
  world.Open("node1", held.generation);
  world.Say("node1", StoreSet{held.generation, "key", "value"});
  world.Say("node1", WorkersFinished{held.generation, false});
  world.Say("node1", OfferSent{offer}, held);
  EXPECT_EQ(world.machine().View(world.now()).nodes.at(0).state, "finished");
  offer.node_id = offer.host = "node2";
  world.Open("node2", held.generation);
  world.Say("node2", OfferSent{offer}, held);
  EXPECT_THAT(Text(world.Say("node2", StoreRead{held.generation, 5, {"key"}, true})),
              HasSubstr("-> node2: store reply 5: key"));
  EXPECT_THAT(Text(world.Finish("node2")), HasSubstr("job ended: success"));
  EXPECT_EQ(world.broken().value_or(""), "");
}

/// R1.
TEST(JobMachine, HigherGenerationReportedLaterEndsALowerOne) {
  const Assignment low = RunningPair().assignments().at("node1");
  ClusterSimulation world(Settings(1, 2), std::chrono::seconds(3));
  Offer offer;
  offer.node_id = offer.host = "node1";
  offer.holds = low.generation;
  world.Open("node1", low.generation);
  world.Say("node1", OfferSent{offer}, low);
  Assignment high = low;
  high.generation = Generation{5, 55};
  high.members.erase(high.members.begin());
  high.members[0].node_rank = high.members[0].first_rank = 0;
  high.world_size = 1;
  offer.node_id = offer.host = "node2";
  offer.holds = high.generation;
  world.Open("node2", high.generation);
  const std::string text = Text(world.Say("node2", OfferSent{offer}, high));
  EXPECT_THAT(text, HasSubstr("-> node1: generation 1 ended"));
  EXPECT_THAT(text, HasSubstr("adopts generation 5"));
}

TEST(JobMachine, InvalidAssignmentIsNotAdopted) {
  Assignment held = RunningPair().assignments().at("node1");
  held.members[1].first_rank = 7;
  ClusterSimulation world(Settings(2, 2), std::chrono::seconds(3));
  Offer offer;
  offer.node_id = offer.host = "node1";
  offer.holds = held.generation;
  world.Open("node1");
  EXPECT_THAT(Text(world.Say("node1", OfferSent{offer}, held)), HasSubstr("-> node1: generation 1 ended"));
}

TEST(JobMachine, BudgetSurvivesANewService) {
  ClusterSimulation world(Settings(1, 1, 2));
  world.Open("node1", Generation{3, 3}, 2);
  world.OfferFrom("node1");
  EXPECT_EQ(world.generation().number, 4u);
  EXPECT_THAT(Text(world.Fail("node1", 5)), HasSubstr("job ended: failed, exit code 5"));
}

TEST(JobMachine, DeadNodeIsLostAlthoughEveryTickIsLate) {
  ClusterSimulation world = RunningPair();
  std::string text;
  for (int i = 0; i < 40 && !absl::StrContains(text, "node2 is lost"); ++i) {
    world.Beat("node1");
    text += Text(world.Stall(std::chrono::seconds(3)));
  }
  EXPECT_THAT(text, HasSubstr("node2 is lost"));
}

/// A tick that is a little late says nothing about this machine. After a later one, messages may be unread.
TEST(JobMachine, TickLaterThanAFifthOfAHeartbeatBlamesNobody) {
  const Duration allowed = Settings(2, 2).heartbeat_interval / 5;
  for (const bool later : {false, true}) {
    ClusterSimulation world = RunningPair();
    const TimePoint due = *world.machine().NextDeadline();
    const std::string text = Text(world.Stall(due - world.now() + allowed + Duration(later ? 1 : 0)));
    EXPECT_EQ(absl::StrContains(text, "is lost"), !later) << text;
  }
}

TEST(JobMachine, ReportsBeforeTheOfferAreBounded) {
  const Assignment held = RunningPair().assignments().at("node1");
  ClusterSimulation world(Settings(2, 2), std::chrono::seconds(3));
  world.Open("node1", held.generation);
  int64_t id = 0;
  while (id < static_cast<int64_t>(JobMachine::kMaxEarlyReports))
    ASSERT_EQ(Text(world.Say("node1", StoreRead{held.generation, ++id, {"key"}, true})), "") << id;
  const std::string beyond = Text(world.Say("node1", StoreRead{held.generation, ++id, {"key"}, true}));
  EXPECT_THAT(beyond, HasSubstr(absl::StrCat("-> node1: store reply ", id)));
}

/// An agent that has left reads no answer.
TEST(JobMachine, ReadsOfANodeThatIsGoneAreNotAnswered) {
  JobSettings trainers = Settings(1, 2, 10);
  trainers.refund_steps = 100;
  using Way = std::function<std::vector<std::string>(ClusterSimulation&)>;
  const Way leaves = [](ClusterSimulation& world) { return world.Leave("node2"); };
  const Way is_lost = [&](ClusterSimulation& world) {
    world.Close("node2");
    return world.Advance(trainers.reconnect_grace);
  };
  const Way is_evicted = [](ClusterSimulation& world) {
    world.Close("node2");
    return world.Evict("node2");
  };
  const Way is_unfit = [](ClusterSimulation& world) {
    world.Say("node1", StepsCommitted{world.generation(), 1});
    return world.Fail("node2", kWrongSettingsStatus);
  };
  for (const Way& go : {leaves, is_lost, is_evicted, is_unfit}) {
    ClusterSimulation world(trainers);
    for (const char* node : {"node1", "node2"}) world.Open(node), world.OfferFrom(node);
    world.Wait("node1", "key");
    world.Wait("node2", "key");
    const std::string text = Text(go(world));
    EXPECT_THAT(text, HasSubstr("-> node1: store reply"));
    EXPECT_THAT(text, Not(HasSubstr("-> node2: store reply")));
  }
}

/// R8. A node that opens its stream again has told this service before how long it had lost its host.
TEST(JobMachine, ContactWithTheLastHostCountsFromTheFirstStream) {
  const JobSettings settings = Settings(2, 2);
  JobMachine machine(settings, {1, TimePoint(), Duration::zero()});
  const auto opens = [&](const std::string& node, Duration silence) {
    StreamOpened opened{settings, {}, 0};
    opened.silence = silence;
    machine.Step(Event{node, opened}, TimePoint());
    return machine.roster().Find(node)->with_host;
  };
  EXPECT_TRUE(opens("node1", settings.LostAfter() - Duration(1)));
  EXPECT_TRUE(opens("node1", settings.LostAfter()));
  EXPECT_FALSE(opens("node2", settings.LostAfter())) << "its host may have continued without it";
  EXPECT_TRUE(opens("node2", Duration::zero()));
}

/// The next generation begins as if nothing had been reported in the last one.
TEST(JobMachine, EndedGenerationLeavesNothingOfItsReports) {
  using Act = std::function<void(ClusterSimulation&)>;
  const std::vector<Act> reports = {
      [](ClusterSimulation& world) { world.Set("node1", "key", "value"); },
      [](ClusterSimulation& world) { world.Set("node2", std::string(5000, 'k'), "refused"); },
      [](ClusterSimulation& world) { world.Wait("node1", "other"); },
      [](ClusterSimulation& world) { world.Wait("node2", "other"); },
      [](ClusterSimulation& world) {
        world.Say("node1", PeerUnreached{world.generation(), 0, 1});
      },
      [](ClusterSimulation& world) {
        world.Say("node2", PeerUnreached{world.generation(), 1, 0});
      },
      [](ClusterSimulation& world) { world.Finish("node2"); },
      [](ClusterSimulation& world) { world.Beat("node1"); },
  };
  const std::vector<Act> ends = {
      [](ClusterSimulation& world) { world.Leave("node2"), world.OfferFrom("node1"); },
      [](ClusterSimulation& world) {
        world.Fail("node1"), world.OfferFrom("node1"), world.OfferFrom("node2");
      },
      [](ClusterSimulation& world) {
        world.Break("node1"), world.OfferFrom("node1"), world.OfferFrom("node2");
      },
      [](ClusterSimulation& world) { world.OfferFrom("node1"), world.OfferFrom("node2"); },
  };
  for (size_t end = 0; end < ends.size(); ++end) {
    const auto after = [&](const std::vector<Act>& happened) {
      ClusterSimulation world = RunningPair(/*restarts=*/3);
      for (const Act& report : happened) report(world);
      ends[end](world);
      if (!world.machine().Has("node2")) world.Open("node2"), world.OfferFrom("node2");
      world.Advance(std::chrono::milliseconds(400));  // after a break
      EXPECT_EQ(world.generation().number, 2u) << "end " << end << "\n" << world.Text();
      EXPECT_EQ(world.broken().value_or(""), "");
      return world.machine();
    };
    const JobMachine quiet = after({});
    for (size_t i = 0; i < reports.size(); ++i) {
      // The result of a finished node is not lost with it.
      if (i == 6 && end == 0) continue;
      EXPECT_TRUE(after({reports[i]}) == quiet) << "end " << end << ", report " << i;
    }
    for (uint32_t seed = 1; seed <= 50; ++seed) {
      std::mt19937 random(seed);
      std::vector<Act> happened;
      for (int n = 0; n < 6; ++n) happened.push_back(reports[random() % 6]);
      EXPECT_TRUE(after(happened) == quiet) << "end " << end << ", seed " << seed;
    }
  }
}

TEST(JobMachine, EndedJobIsRemovedAfterTenSecondsAlthoughNodesAreConnected) {
  ClusterSimulation world = RunningPair();
  world.Fail("node1", 1);
  for (int i = 0; i < 1000 && !world.machine().outcome(); ++i) world.Advance(std::chrono::milliseconds(10));
  ASSERT_TRUE(world.machine().outcome().has_value());
  world.Advance(std::chrono::milliseconds(9900));
  EXPECT_FALSE(world.machine().Gone());
  world.Advance(std::chrono::milliseconds(110));
  EXPECT_TRUE(world.machine().Gone());
}

/// With more nodes, not everything is checked at each event in a release build.
TEST(JobMachine, KeepsItsInvariantsWithManyNodes) {
  constexpr int kNodes = static_cast<int>(JobMachine::kMaxChecked) + 20;
  ClusterSimulation world(Settings(kNodes - 2, kNodes, 5));
  const auto each = [&](const auto& act) {
    for (int i = 0; i < kNodes + 3; ++i) {
      act(absl::StrCat("node", i));
      ASSERT_FALSE(world.broken()) << *world.broken();
      world.machine().CheckInvariants();
    }
  };
  each([&](const std::string& node) { world.Open(node), world.OfferFrom(node); });
  EXPECT_EQ(world.generation().number, 1u);
  world.Fail("node7");
  world.Close("node3");
  world.Advance(Settings(1, 1).reconnect_grace);
  each([&](const std::string& node) {
    // The spares offered long ago: an admitted one that offers again ends the generation.
    if (world.machine().Has(node) && world.generation().number == 1) world.OfferFrom(node);
  });
  EXPECT_EQ(world.generation().number, 2u);
  world.Open("node3");
  world.OfferFrom("node3");
  each([&](const std::string& node) {
    if (world.machine().RunBy(node).number > 0) world.Say(node, WorkersFinished{world.generation(), false});
  });
  ASSERT_TRUE(world.machine().outcome());
  EXPECT_TRUE(world.machine().outcome()->success);
  each([&](const std::string& node) { world.Leave(node); });
  EXPECT_TRUE(world.machine().Gone());
}

}  // namespace
}  // namespace mtrun::rendezvous
