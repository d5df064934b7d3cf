#include "rendezvous/predecessors.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"
#include "tests/rendezvous/takeover.h"

namespace mtrun::rendezvous {
namespace {

const Generation kSecond{2, 22}, kThird{3, 33}, kElsewhere{2, 5};

Departures WithDead(const std::vector<std::string>& nodes) {
  Departures departures = kNobodyGone;
  for (const std::string& node : nodes) departures.OnDead(node);
  return departures;
}

/// The first generation has been followed, and these have been heard to know of the second one.
Predecessors AfterTheFirst(const std::vector<std::string>& members, const std::vector<std::string>& aware,
                           const Departures& departures = kNobodyGone) {
  Predecessors predecessors;
  predecessors.OnFollowed(MakeGeneration(1, members), departures);
  for (const std::string& node : aware) predecessors.OnKnown(node, kSecond, kSecond);
  return predecessors;
}

TEST(Predecessors, OneIsForgottenOnceMostOfItsMembersKnow) {
  const std::vector<std::string> five = {"node1", "node2", "node3", "node4", "node5"};
  EXPECT_FALSE(AfterTheFirst(five, {"node1", "node2"}).empty());
  EXPECT_TRUE(AfterTheFirst(five, {"node1", "node2", "node5"}).empty());
  EXPECT_FALSE(AfterTheFirst(five, {"node1", "node2", "newcomer"}).empty());
  EXPECT_TRUE(AfterTheFirst({"node1"}, {"node1"}).empty());
}

TEST(Predecessors, TheDeadCountAgainstItUnlessNobodyElseIsLeft) {
  const std::vector<std::string> five = {"node1", "node2", "node3", "node4", "node5"};
  EXPECT_FALSE(AfterTheFirst(five, {"node1", "node2"}, WithDead({"node4"})).empty());
  EXPECT_TRUE(AfterTheFirst(five, {"node1", "node2"}, WithDead({"node3", "node4", "node5"})).empty());
  Departures left = kNobodyGone;
  left.OnLeft("node4");
  left.OnEvicted("node5");
  EXPECT_FALSE(AfterTheFirst(five, {"node1", "node2"}, left).empty()) << "node5 may be in a later one";
  left.OnLeft("node5");
  EXPECT_TRUE(AfterTheFirst(five, {"node1", "node2"}, left).empty()) << "they are in no later generation";
  EXPECT_TRUE(AfterTheFirst({"node1", "node2"}, {}, WithDead({"node1", "node2"})).empty());
}

TEST(Predecessors, OnlyGenerationsThatFollowHereCount) {
  Predecessors predecessors = AfterTheFirst({"node1", "node2", "node3"}, {});
  for (const char* node : {"node1", "node2", "node3"}) {
    predecessors.OnKnown(node, Generation{1, 11}, kSecond);
    predecessors.OnKnown(node, Generation{}, kSecond);
    predecessors.OnKnown(node, kElsewhere, kSecond);
  }
  EXPECT_FALSE(predecessors.empty()) << "another service's, the same one or none";
  predecessors.OnFollowed(MakeGeneration(2, {"node1", "node2", "node4"}), kNobodyGone);
  predecessors.OnKnown("node1", kSecond, kThird);
  predecessors.OnKnown("node3", kThird, kThird);
  const Predecessors::Predecessor* second = predecessors.FindUnsure({}, kNobodyGone);
  ASSERT_NE(second, nullptr)
      << "most of the first know of one, only node3 of the third, and is not in the second";
  EXPECT_EQ(second->generation.generation, kSecond);
  predecessors.OnKnown("node1", kThird, kThird);
  predecessors.OnKnown("node4", kThird, kThird);
  EXPECT_TRUE(predecessors.empty());
}

TEST(Predecessors, TheNextGenerationMayBeOfNodesThatWouldDoForThemAll) {
  Predecessors predecessors = AfterTheFirst({"node1", "node2", "node3", "node4", "node5"}, {"node1"});
  predecessors.OnFollowed(MakeGeneration(2, {"node1", "node2", "node3"}), kNobodyGone);
  ASSERT_NE(predecessors.FindUnsure({"node1", "node2"}, kNobodyGone), nullptr) << "two of five";
  EXPECT_EQ(predecessors.FindUnsure({"node1", "node2"}, kNobodyGone)->generation.generation.number, 1u);
  EXPECT_EQ(predecessors.FindUnsure({"node2", "node3"}, kNobodyGone), nullptr) << "with one that knows";
  EXPECT_EQ(predecessors.FindUnsure({"node1", "node2"}, WithDead({"node3", "node4", "node5"})), nullptr);
  EXPECT_EQ(
      predecessors.FindUnsure({"node1", "node2"}, WithDead({"node3", "node4"}))->generation.generation.number,
      1u);
}

TEST(Predecessors, ItsMembersAreThoseThatAreNotGone) {
  Predecessors predecessors = AfterTheFirst({"node1", "node2", "node3"}, {}, WithDead({"node2"}));
  predecessors.OnFollowed(MakeGeneration(2, {"node1", "node4"}), kNobodyGone);
  std::vector<std::string> ids;
  for (const Member* member : predecessors.Remaining(WithDead({"node4"}))) ids.push_back(member->node_id);
  EXPECT_THAT(ids, ::testing::ElementsAre("node1", "node3"));
  EXPECT_EQ(predecessors.Find("node4")->node_id, "node4");
  EXPECT_EQ(predecessors.Find("node5"), nullptr);
  predecessors.Clear();
  EXPECT_TRUE(predecessors.empty());
  EXPECT_EQ(predecessors.FindUnsure({}, kNobodyGone), nullptr);
}

/// A service that knows a generation from its members alone waits for the same ones.
TEST(Predecessors, WhoLearnsOfAGenerationLearnsWhichOnesMayStillBeFollowed) {
  Predecessors predecessors =
      AfterTheFirst({"node1", "node2", "node3", "node4", "node5"}, {}, WithDead({"node5"}));
  Assignment second = MakeGeneration(2, {"node1", "node2", "node6"});
  second.earlier = predecessors.Before(second);
  ASSERT_EQ(second.earlier.size(), 1u);
  EXPECT_THAT(second.earlier[0].newcomers, ::testing::ElementsAre("node6"));
  EXPECT_THAT(second.earlier[0].gone, ::testing::ElementsAre("node5"));
  EXPECT_TRUE(ValidateAssignment(second).ok());

  Predecessors learned;
  learned.OnLearned(second);
  for (Predecessors* each : {&predecessors, &learned}) {
    EXPECT_EQ(each->Find("node6"), nullptr) << "it was in none";
    EXPECT_NE(each->Find("node4"), nullptr);
    ASSERT_NE(each->FindUnsure({"node1", "node2"}, kNobodyGone), nullptr) << "two of five";
    EXPECT_EQ(each->FindUnsure({"node1", "node2", "node3"}, kNobodyGone), nullptr);
    EXPECT_EQ(each->FindUnsure({"node1", "node2"}, WithDead({"node3", "node4"})), nullptr);
    for (const char* node : {"node1", "node2", "node6"}) each->OnKnown(node, kSecond, kSecond);
    EXPECT_FALSE(each->empty());
    each->OnKnown("node3", kSecond, kSecond);
    EXPECT_TRUE(each->empty());
  }
  second.earlier.clear();
  learned.OnLearned(second);
  EXPECT_TRUE(learned.empty()) << "its members have heard that enough know";
}

TEST(Predecessors, OfManyGenerationsTheNewestAreTold) {
  Predecessors predecessors;
  for (uint64_t number = 1; number <= kMaxEarlier + 2; ++number)
    predecessors.OnFollowed(MakeGeneration(number, {"node1", "node2", "node3"}), kNobodyGone);
  const auto told = predecessors.Before(MakeGeneration(kMaxEarlier + 3, {"node1", "node2", "node3"}));
  ASSERT_EQ(told.size(), size_t{kMaxEarlier});
  EXPECT_EQ(told.front().generation.number, 3u);
  EXPECT_THAT(told.front().others, ::testing::IsEmpty());
}

TEST(Predecessors, WhoLeftIsNotTold) {
  Departures left = kNobodyGone;
  left.OnLeft("node3");
  const Predecessors predecessors = AfterTheFirst({"node1", "node2", "node3", "node4"}, {}, left);
  const auto told = predecessors.Before(MakeGeneration(2, {"node1"}));
  std::vector<std::string> ids;
  for (const Member& other : told.at(0).others) ids.push_back(other.node_id);
  EXPECT_THAT(ids, ::testing::ElementsAre("node2", "node4"));
}

/// Of two disjoint parts of any members, of which each takes the other's for silent, one at most are most of
/// them.
TEST(Predecessors, TwoPartsAreNeverBothMost) {
  const Assignment generation = MakeGeneration(1, {"node1", "node2", "node3", "node4", "node5"});
  const std::vector<Member>& members = generation.members;
  for (unsigned states = 0; states < 1024; ++states) {  // of each node: here, there, dead, sent away
    std::set<std::string> here, there, gone, left;
    for (size_t i = 0; i < members.size(); ++i) {
      const unsigned state = states >> (2 * i) & 3;
      const std::string& id = members[i].node_id;
      if (state >= 2) gone.insert(id);
      (state == 0 ? here : state == 1 ? there : state == 2 ? gone : left).insert(id);
    }
    const auto most = [&](const std::set<std::string>& part) {
      return AreMost(
          members, [&](const std::string& id) { return part.contains(id); }, gone, left);
    };
    const bool both = most(here) && most(there);
    EXPECT_EQ(both, here.empty() && there.empty()) << states;
    EXPECT_TRUE(most(here) || most(there) || (!here.empty() && !there.empty())) << states;
  }
}

}  // namespace
}  // namespace mtrun::rendezvous
