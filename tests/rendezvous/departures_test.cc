#include "rendezvous/authority/departures.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;

TimePoint DepartureAt(double second) { return TimePoint(FromSeconds(second)); }

JobSettings WithLease(Duration lease = seconds(10)) {
  JobSettings settings;
  settings.fence_timeout = lease;
  return settings;
}

/// Generation 1 of two nodes, begun at 0 s; no node is here.
class DeparturesTest : public ::testing::Test {
 protected:
  explicit DeparturesTest(Duration lease = seconds(10))
      : departures_(WithLease(lease)), roster_(WithLease(lease)) {
    departures_.OnGeneration(*generation_.last(), DepartureAt(0));
    generation_.Stop();
  }
  bool Over(double second) const { return WhyNotOver(second).empty(); }
  std::string WhyNotOver(double second) const { return WhyNotOver(generation_, second); }
  std::string WhyNotOver(const GenerationRecord& generation, double second) const {
    const Assignment* running = departures_.FindRunning(generation, roster_, DepartureAt(second));
    return running == nullptr ? "" : departures_.DescribeHold(*running);
  }
  void Arrive(const std::string& node, double second) {
    roster_.Open(node, DepartureAt(second));
    roster_.Change(node, [](RosterNode& entry) { entry.greeted = true; });
  }

  GenerationRecord generation_ = Running(1, {"node1", "node2"});
  Departures departures_;
  Roster roster_;
};

/// R2.
TEST_F(DeparturesTest, GenerationIsNotOverWithoutEvidence) {
  EXPECT_EQ(WhyNotOver(GenerationRecord(), 0), "") << "there was none";
  EXPECT_FALSE(Over(1));
  EXPECT_THAT(WhyNotOver(1), AllOf(HasSubstr("generation 1 may still run on node1, node2"),
                                   HasSubstr("mtrun --evict NODE ENDPOINT")));
  Arrive("node1", 1);
  EXPECT_FALSE(Over(1)) << "it is here, and may run on";
}

TEST_F(DeparturesTest, LostNodeMayComeBackWithinItsLease) {
  EXPECT_FALSE(departures_.AnyLost(DepartureAt(1)));
  departures_.OnLost("node1", DepartureAt(1));
  departures_.OnGeneration(*generation_.last(), DepartureAt(2));
  EXPECT_TRUE(departures_.AnyLost(DepartureAt(2))) << "of earlier generations too";
  EXPECT_FALSE(departures_.AnyLost(DepartureAt(13))) << "10 s, and a margin of 1.2 s";
  departures_.OnBack("node1");
  EXPECT_FALSE(departures_.AnyLost(DepartureAt(2)));
  using Gone = void (Departures::*)(const std::string&);
  for (const Gone gone : {&Departures::OnLeft, &Departures::OnDead, &Departures::OnEvicted}) {
    Departures known = departures_, lost = departures_;
    (known.*gone)("node1");
    known.OnLost("node1", DepartureAt(2));  // a service gives up nodes that it knows to be gone
    EXPECT_FALSE(known.AnyLost(DepartureAt(2)));
    lost.OnLost("node1", DepartureAt(2));
    (lost.*gone)("node1");
    EXPECT_FALSE(lost.AnyLost(DepartureAt(2)));
  }
}

/// R2.
TEST_F(DeparturesTest, OneDepartedMemberEndsTheGeneration) {
  const Departures none = departures_;
  departures_.OnLeft("node2");
  EXPECT_TRUE(Over(1));
  departures_ = none;
  departures_.OnDead("node1");
  EXPECT_TRUE(Over(1));
  departures_ = none;
  departures_.OnBroken("node1");
  EXPECT_TRUE(Over(1));
  departures_ = none;
  departures_.OnEvicted("node2");
  EXPECT_TRUE(Over(1));
  EXPECT_TRUE(departures_.Gone("node2") && departures_.Evicted("node2"));
  departures_ = none;
  departures_.OnDead("node3");
  EXPECT_FALSE(Over(1)) << "no member";
  Arrive("node2", 1);
  roster_.TakeOffer("node2", MakeOffer("node2"));
  EXPECT_TRUE(Over(1)) << "it has offered again";
}

/// A member that was out of one generation is in the next one like any other.
TEST_F(DeparturesTest, NextGenerationBeginsWithoutTheDeparturesOfTheLast) {
  const Assignment next = MakeGeneration(2, {"node1", "node2"});
  Departures fresh = departures_;
  fresh.OnGeneration(next, DepartureAt(5));
  using Event = void (Departures::*)(const std::string&);
  for (const Event event :
       {&Departures::OnLeft, &Departures::OnDead, &Departures::OnBroken, &Departures::OnEvicted}) {
    Departures known = departures_;
    (known.*event)("node1");
    known.OnGeneration(next, DepartureAt(5));
    EXPECT_EQ(known, fresh) << known.Describe();
  }
  Departures lost = departures_, probed = departures_;
  lost.OnLost("node1", DepartureAt(3));
  lost.OnGeneration(next, DepartureAt(5));
  lost.OnBack("node1");
  EXPECT_EQ(lost, fresh) << lost.Describe();
  for (int i = 0; i < Departures::kMaxLooks; ++i) probed.OnProbed({"node3"});
  probed.OnGeneration(next, DepartureAt(5));
  EXPECT_EQ(probed, fresh) << probed.Describe();
}

TEST_F(DeparturesTest, OfferWithoutWorkersCountsAsDeparture) {
  Arrive("node2", 1);
  roster_.TakeOffer("node2", MakeOffer("node2", 0));
  EXPECT_TRUE(Over(1));
}

/// R3.
TEST_F(DeparturesTest, LeaseStartsAtTheLastHeartbeat) {
  EXPECT_EQ(departures_.Margin(), FromSeconds(1.2));
  EXPECT_EQ(departures_.FirstLeaseEnd(generation_, roster_), DepartureAt(11.2));
  EXPECT_FALSE(Over(11.1));
  EXPECT_TRUE(Over(11.2));
  departures_.OnLost("node1", DepartureAt(3));
  Arrive("node2", 5);
  EXPECT_EQ(departures_.FirstLeaseEnd(generation_, roster_), DepartureAt(14.2)) << "of the first one";
  departures_.OnGeneration(*generation_.last(), DepartureAt(4));
  EXPECT_EQ(departures_.FirstLeaseEnd(generation_, roster_), DepartureAt(15.2))
      << "of node1 since the new one began";
}

/// Two nodes whose workers end a step of generation 1 are about to be in generation 2.
class LeavingBehindAStepTest : public DeparturesTest {
 protected:
  LeavingBehindAStepTest() {
    for (const char* node : {"node1", "node2"}) {
      Arrive(node, 1);
      roster_.Change(node, [](RosterNode& entry) { entry.place = 0; });
      Offers(node, /*ends_step=*/true);
    }
  }
  void Offers(const std::string& node, bool ends_step) {
    Offer offer = MakeOffer(node);
    offer.ends_step = ends_step;
    roster_.TakeOffer(node, offer);
  }
  void FormsWith(const std::vector<std::string>& nodes, double second) {
    departures_.OnFormed(generation_, roster_, DepartureAt(second));
    generation_ = Running(generation_.id().number + 1, nodes);
    departures_.OnGeneration(*generation_.last(), DepartureAt(second));
    generation_.Stop();
    for (const std::string& node : nodes)
      roster_.Change(node, [](RosterNode& entry) { entry.offered = false; });
  }
};

/// R2, `ends_step`.
TEST_F(LeavingBehindAStepTest, SufficesIfTheNextGenerationNeedsTheMembers) {
  EXPECT_TRUE(Over(1));
  for (const char* node : {"node1", "node2"}) roster_.Close(node, {"reset"}, DepartureAt(1));
  EXPECT_FALSE(Over(1)) << "it forms without them";
  Arrive("node1", 1);
  EXPECT_TRUE(Over(1));
  roster_.Change("node1", [](RosterNode& node) { node.place.reset(); });
  EXPECT_FALSE(Over(1)) << "others may be chosen";
}

/// R2, `ends_step`.
TEST_F(LeavingBehindAStepTest, NextGenerationCanEndBeforeTheMembersArrive) {
  FormsWith({"node1", "node2"}, 2);
  departures_.OnBroken("node2");
  EXPECT_TRUE(Over(2)) << "a worker of it has ended, whatever generation it was in";
  FormsWith({"node1"}, 2);
  EXPECT_FALSE(Over(2));
  Offers("node1", /*ends_step=*/false);
  EXPECT_TRUE(Over(2));
}

TEST_F(LeavingBehindAStepTest, ReasonNamesMembersThatMayStillRun) {
  Arrive("node3", 1);
  Offers("node3", false);
  FormsWith({"node1", "node2", "node3"}, 2);
  Offers("node3", false);
  roster_.Erase("node1");
  roster_.Erase("node2");
  EXPECT_FALSE(Over(2));
  EXPECT_THAT(WhyNotOver(2), HasSubstr("generation 1 may still run on node1, node2"));
  EXPECT_EQ(departures_.FirstLeaseEnd(generation_, roster_), DepartureAt(13.2));
  EXPECT_FALSE(Over(13.1));
  EXPECT_TRUE(Over(13.2));
}

/// Its members may be here and send heartbeats forever: none gets a lease in it any more.
TEST_F(LeavingBehindAStepTest, LeasesExpireAlthoughMembersAreConnected) {
  Arrive("node3", 1);
  Offers("node3", false);
  FormsWith({"node1", "node3"}, 2);
  roster_.Change("node2", [](RosterNode& node) { node.place.reset(); });  // another node has it
  Offers("node3", false);
  for (double second = 2; second <= 13; ++second) {
    Arrive("node2", second);
    EXPECT_FALSE(Over(second));
  }
  Arrive("node2", 13.2);
  EXPECT_TRUE(Over(13.2));
}

/// R2, `ends_step`.
TEST_F(LeavingBehindAStepTest, StepOfTheNextGenerationProvesTheEnd) {
  Arrive("node3", 1);
  Offers("node3", false);
  FormsWith({"node1", "node2", "node3"}, 2);
  departures_.OnStep();
  Offers("node3", false);
  roster_.Erase("node1");
  roster_.Erase("node2");
  EXPECT_TRUE(Over(2));
}

TEST_F(LeavingBehindAStepTest, SmallestOfSuccessiveGenerationsCounts) {
  Arrive("node3", 1);
  Offers("node3", false);
  FormsWith({"node1", "node2"}, 2);  // like generation 1
  for (const char* node : {"node1", "node2"}) Offers(node, true);
  FormsWith({"node1", "node2", "node3"}, 3);
  EXPECT_THAT(departures_.Describe(), HasSubstr("not sure of 1 before it"));
}

TEST_F(DeparturesTest, EvictionAppliesToOneGeneration) {
  departures_.OnEvicted("node1");
  roster_.Expect(generation_.last()->members[0], DepartureAt(9), DepartureAt(0));
  EXPECT_THAT(departures_.Request(generation_, roster_), ElementsAre(Key("node2"))) << "nothing to find out";
  EXPECT_THAT(departures_.Describe(), HasSubstr("evicted {node1}"));
  departures_.OnGeneration(MakeGeneration(2, {"node1", "node2"}), DepartureAt(1));
  EXPECT_FALSE(departures_.Gone("node1")) << "it came back and was taken in";
}

class NeverTest : public DeparturesTest {
 protected:
  NeverTest() : DeparturesTest(Duration::zero()) {}
};

/// R3.
TEST_F(NeverTest, InfiniteLeaseHoldsForever) {
  EXPECT_EQ(departures_.FirstLeaseEnd(generation_, roster_), std::nullopt);
  EXPECT_FALSE(Over(1e6));
  EXPECT_THAT(WhyNotOver(1), HasSubstr("fence_timeout=never"));
}

TEST_F(DeparturesTest, MembersOfARunningGenerationAreProbedAFewTimes) {
  const GenerationRecord running = Running(1, {"node1", "node2"});
  Arrive("node1", 0);
  EXPECT_THAT(departures_.Request(running, roster_), ElementsAre(Key("node1"), Key("node2")));
  departures_.OnProbed({"node1"});
  EXPECT_TRUE(departures_.Verified("node1"));
  EXPECT_THAT(departures_.Request(running, roster_), ElementsAre(Key("node2")));
  for (int i = 1; i < Departures::kMaxLooks; ++i) departures_.OnProbed({});
  EXPECT_THAT(departures_.Request(running, roster_), IsEmpty()) << "a firewall may be in between";
  departures_.OnGeneration(MakeGeneration(2, {"node2", "node3"}), DepartureAt(1));
  EXPECT_FALSE(departures_.Verified("node1")) << "no member any more";
}

/// A dead member is distinguished from a broken connection while it still has time to come back.
TEST_F(DeparturesTest, VerifiedMemberIsProbedWhenItsStreamEnds) {
  const GenerationRecord running = Running(1, {"node1", "node2"});
  Arrive("node1", 0), Arrive("node2", 0);
  for (int i = 0; i < Departures::kMaxLooks; ++i) departures_.OnProbed({"node1"});
  EXPECT_THAT(departures_.Request(running, roster_), IsEmpty());
  EXPECT_THAT(departures_.Fallen(running, roster_), IsEmpty());
  roster_.Close("node1", {"reset"}, DepartureAt(1));
  roster_.Close("node2", {"reset"}, DepartureAt(1));
  EXPECT_THAT(departures_.Request(running, roster_), ElementsAre(Key("node1"))) << "node2 has never answered";
  EXPECT_THAT(departures_.Fallen(running, roster_), ElementsAre("node1"));
  EXPECT_THAT(departures_.Fallen(generation_, roster_), IsEmpty()) << "that one does not run";
  departures_.OnDead("node1");
  EXPECT_THAT(departures_.Fallen(running, roster_), IsEmpty()) << "nothing to find out";
}

TEST_F(DeparturesTest, MemberOfAnOrdinaryProgramIsProbedWhenItsStreamEnds) {
  const GenerationRecord running = Running(1, {"node1", "node2"});
  Arrive("node1", 0), Arrive("node2", 0);
  for (int i = 0; i < Departures::kMaxLooks; ++i) departures_.OnProbed({});
  roster_.Follow(running.last());
  roster_.Close("node2", {"reset"}, DepartureAt(1));
  EXPECT_THAT(departures_.Request(running, roster_), IsEmpty()) << "it is lost anyway";
  roster_.Beat("node1", {.ordinary = true}, DepartureAt(1));
  EXPECT_THAT(departures_.Request(running, roster_), ElementsAre(Key("node2"))) << "it has never answered";
  departures_.OnEvicted("node2");
  EXPECT_THAT(departures_.Request(running, roster_), IsEmpty());
}

TEST_F(DeparturesTest, MissingMembersAreProbedWithoutLimit) {
  for (int i = 0; i < 100; ++i) departures_.OnProbed({"node1", "node2"});
  Arrive("node1", 0);
  EXPECT_THAT(departures_.Request(generation_, roster_), ElementsAre(Key("node2")));
  roster_.Close("node1", {"reset"}, DepartureAt(1));
  EXPECT_THAT(departures_.Request(generation_, roster_), SizeIs(2));
  departures_.OnDead("node2");
  EXPECT_THAT(departures_.Request(generation_, roster_), ElementsAre(Key("node1")));
}

TEST_F(DeparturesTest, ProbesAreBoundedForManyMembers) {
  std::vector<std::string> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back("node" + std::to_string(i));
  const GenerationRecord many = Running(1, nodes);
  EXPECT_THAT(departures_.Request(many, roster_), SizeIs(Departures::kMaxLooked));
  EXPECT_THAT(WhyNotOver(many, 1), HasSubstr("node2, 997 more"));
}

TEST_F(DeparturesTest, IsAValue) {
  Departures copy = departures_;
  EXPECT_EQ(copy, departures_);
  copy.OnBroken("node1");
  copy.OnProbed({"node2"});
  EXPECT_FALSE(copy == departures_);
  EXPECT_EQ(copy.Describe(), "left {}, dead {}, broken {node1}, verified {node2}, looks 1");
}

}  // namespace
}  // namespace mtrun::rendezvous
