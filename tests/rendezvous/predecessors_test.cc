#include "rendezvous/authority/predecessors.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/validate_assignment.h"
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

/// The first generation has been followed, and these nodes know of the second one.
Predecessors AfterTheFirst(const std::vector<std::string>& members, const std::vector<std::string>& aware,
                           const Departures& departures = kNobodyGone) {
  Predecessors predecessors;
  predecessors.OnFollowed(MakeGeneration(1, members), departures);
  for (const std::string& node : aware) predecessors.OnKnown(node, kSecond, kSecond);
  return predecessors;
}

/// R10.
TEST(Predecessors, PredecessorIsForgottenOnceAMajorityKnows) {
  const std::vector<std::string> five = {"node1", "node2", "node3", "node4", "node5"};
  EXPECT_FALSE(AfterTheFirst(five, {"node1", "node2"}).empty());
  EXPECT_TRUE(AfterTheFirst(five, {"node1", "node2", "node5"}).empty());
  EXPECT_FALSE(AfterTheFirst(five, {"node1", "node2", "newcomer"}).empty());
  EXPECT_TRUE(AfterTheFirst({"node1"}, {"node1"}).empty());
}

TEST(Predecessors, DeadMembersCountAgainstItUnlessAllOthersAreGone) {
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

/// R10.
TEST(Predecessors, NextGenerationNeedsNodesThatSatisfyAllPredecessors) {
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

TEST(Predecessors, RemainingMembersExcludeDepartedNodes) {
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

/// R10. A service that knows a generation only from its members waits for the same ones.
TEST(Predecessors, MembershipCarriesItsUnsettledPredecessors) {
  Predecessors predecessors =
      AfterTheFirst({"node1", "node2", "node3", "node4", "node5"}, {}, WithDead({"node5"}));
  Assignment second = MakeGeneration(2, {"node1", "node2", "node6"});
  second.earlier = predecessors.Before(second);
  ASSERT_EQ(second.earlier.size(), 1u);
  EXPECT_THAT(second.earlier[0].newcomers, ::testing::ElementsAre("node6"));
  EXPECT_THAT(second.earlier[0].gone, ::testing::ElementsAre("node5"));
  EXPECT_TRUE(ValidateAssignment(second).ok());

  Predecessors learned;
  learned.OnLearned(std::nullopt, second);
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
  learned.OnLearned(std::nullopt, second);
  EXPECT_TRUE(learned.empty()) << "its members have heard that enough know";
}

/// R10. Another service has followed the first generation too, and a node brings its generation.
TEST(Predecessors, GenerationOfAnotherServiceIsAccountedFor) {
  const Generation low{2, 5}, high{2, 50};
  Assignment elsewhere = MakeGeneration(2, {"node3", "node4", "node5"});
  elsewhere.generation = low;
  Predecessors predecessors = AfterTheFirst({"node1", "node2", "node3"}, {"node1"});
  predecessors.OnReported(MakeGeneration(1, {"node1", "node2", "node3"}), kSecond);
  ASSERT_EQ(predecessors.FindUnsure({"node2"}, kNobodyGone), nullptr) << "the one that was followed";
  predecessors.OnReported(elsewhere, kSecond);
  predecessors.OnReported(elsewhere, kSecond);
  ASSERT_NE(predecessors.FindUnsure({"node2", "node3"}, kNobodyGone), nullptr);
  EXPECT_EQ(predecessors.FindUnsure({"node2", "node3"}, kNobodyGone)->generation.generation, low);
  EXPECT_EQ(predecessors.FindUnsure({"node2", "node3", "node5"}, kNobodyGone), nullptr);
  EXPECT_EQ(predecessors.FindUnsure({"node2", "node3"}, WithDead({"node4", "node5"})), nullptr);
  EXPECT_EQ(predecessors.Before(MakeGeneration(3, {"node1", "node2"})).size(), 2u) << "others obey it too";

  predecessors.OnKnown("node2", kSecond, kSecond);
  predecessors.OnKnown("node3", kSecond, kSecond);
  predecessors.OnKnown("node4", kSecond, kSecond);
  EXPECT_TRUE(predecessors.empty());
  predecessors.OnReported(elsewhere, kSecond);
  EXPECT_TRUE(predecessors.empty()) << "most nodes of the first one knew of the second before that";

  elsewhere.generation = high;
  elsewhere.earlier = AfterTheFirst({"node1", "node2", "node3"}, {}).Before(elsewhere);
  predecessors.OnLearned(MakeGeneration(2, {"node1", "node2"}), elsewhere);
  ASSERT_NE(predecessors.FindUnsure({"node2", "node3"}, kNobodyGone), nullptr);
  EXPECT_EQ(predecessors.FindUnsure({"node2", "node3"}, kNobodyGone)->generation.generation, kSecond)
      << "the last one here before the newer one was learned of";
  predecessors.OnReported(MakeGeneration(3, {"node1"}), high);
  EXPECT_EQ(predecessors.FindUnsure({"node1", "node2"}, kNobodyGone), nullptr) << "newer ones are adopted";
}

TEST(Predecessors, NewestOfManyPredecessorsAreSent) {
  Predecessors predecessors;
  for (uint64_t number = 1; number <= kMaxEarlier + 2; ++number)
    predecessors.OnFollowed(MakeGeneration(number, {"node1", "node2", "node3"}), kNobodyGone);
  const auto told = predecessors.Before(MakeGeneration(kMaxEarlier + 3, {"node1", "node2", "node3"}));
  ASSERT_EQ(told.size(), size_t{kMaxEarlier});
  EXPECT_EQ(told.front().generation.number, 3u);
  EXPECT_THAT(told.front().others, ::testing::IsEmpty());
}

TEST(Predecessors, DepartedMembersAreNotSent) {
  Departures left = kNobodyGone;
  left.OnLeft("node3");
  const Predecessors predecessors = AfterTheFirst({"node1", "node2", "node3", "node4"}, {}, left);
  const auto told = predecessors.Before(MakeGeneration(2, {"node1"}));
  std::vector<std::string> ids;
  for (const Member& other : told.at(0).others) ids.push_back(other.node_id);
  EXPECT_THAT(ids, ::testing::ElementsAre("node2", "node4"));
}

/// R7. Of two disjoint sets of members that are silent to each other, at most one is a majority.
TEST(Predecessors, DisjointPartsAreNeverBothMajorities) {
  const Assignment generation = MakeGeneration(1, {"node1", "node2", "node3", "node4", "node5"});
  const std::vector<Member>& members = generation.members;
  for (unsigned states = 0; states < 1024; ++states) {  // each node: here, there, dead, sent away
    std::set<std::string> here, there, gone, left;
    for (size_t i = 0; i < members.size(); ++i) {
      const unsigned state = states >> (2 * i) & 3;
      const std::string& id = members[i].node_id;
      if (state >= 2) gone.insert(id);
      (state == 0 ? here : state == 1 ? there : state == 2 ? gone : left).insert(id);
    }
    const auto most = [&](const std::set<std::string>& part) {
      return CountMembers(
                 members, [&](const std::string& id) { return part.contains(id); }, gone, left)
          .IsQuorum();
    };
    const bool both = most(here) && most(there);
    EXPECT_EQ(both, here.empty() && there.empty()) << states;
    EXPECT_TRUE(most(here) || most(there) || (!here.empty() && !there.empty())) << states;
  }
}

}  // namespace
}  // namespace mtrun::rendezvous
