#include "rendezvous/authority/formation.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/validate_assignment.h"
#include "tests/support/status.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Candidate Newcomer(const std::string& name, uint64_t arrival = 0) {
  return Candidate{name, name, {}, {}, arrival};
}
Candidate Survivor(const std::string& name, int place) { return Candidate{name, name, {}, place, 0}; }
Candidate Ranked(const std::string& name, int rank) { return Candidate{name, name, rank, {}, 0}; }

TEST(OrderNodes, NewNodesAreInNaturalOrder) {
  EXPECT_THAT(OrderNodes({Newcomer("node10"), Newcomer("node2"), Newcomer("node1")}),
              ElementsAre("node1", "node2", "node10"));
}

TEST(OrderNodes, NodesOfOneHostAreOrderedByAddressThenByArrival) {
  EXPECT_THAT(OrderNodes({{"h-20-b", "h", {}, {}, 1}, {"h-3-a", "h", {}, {}, 2}}),
              ElementsAre("h-20-b", "h-3-a"));
  EXPECT_THAT(OrderNodes({{"h-20-b", "h", {}, {}, 1}, {"h-3-a", "h", {}, {}, 1}}),
              ElementsAre("h-3-a", "h-20-b"));
  EXPECT_THAT(OrderNodes({{"a", "h", {}, {}, 1, "127.0.0.10"},
                          {"b", "h", {}, {}, 3, "127.0.0.9"},
                          {"c", "h", {}, {}, 2, "127.0.0.9"},
                          {"d", "g", {}, {}, 4, "127.0.0.99"}}),
              ElementsAre("d", "c", "b", "a"));
}

TEST(OrderNodes, SurvivorsKeepTheirOrderBeforeNewNodes) {
  EXPECT_THAT(OrderNodes({Newcomer("a"), Survivor("x", 0), Survivor("b", 5)}), ElementsAre("x", "b", "a"));
}

TEST(OrderNodes, ExplicitRanksDecide) {
  EXPECT_THAT(OrderNodes({Ranked("a", 2), Ranked("b", 1), Ranked("c", 0)}), ElementsAre("c", "b", "a"));
  EXPECT_THAT(OrderNodes({Ranked("c", 2), Ranked("b", 1)}), ElementsAre("b", "c"));  // rank 0 is gone
  EXPECT_THAT(OrderNodes({Newcomer("a"), Newcomer("b"), Ranked("z", 0)}), ElementsAre("z", "a", "b"));
  EXPECT_THAT(OrderNodes({Newcomer("a"), Ranked("z", 7)}), ElementsAre("a", "z"));
  EXPECT_THAT(OrderNodes({Ranked("a", 0), Ranked("b", 0), Newcomer("c")}), ElementsAre("a", "b", "c"));
}

TEST(DecideFormation, SurvivorsPrecedeEarlierSpares) {
  FormationInput input;
  input.min_nodes = input.max_nodes = 2;
  input.first = false;
  input.ready = {Newcomer("spare2", 2), Newcomer("spare1", 1), Survivor("node9", 1)};
  input.ready_nodes = 3;
  const FormationDecision decision = DecideFormation(input, TimePoint());
  ASSERT_TRUE(decision.form);
  EXPECT_THAT(decision.order, ElementsAre("node9", "spare1"));
}

TEST(DecideFormation, ReasonNamesAwaitedNodesAndTheMissingNumber) {
  FormationInput input;
  input.min_nodes = 3;
  input.max_nodes = 4;
  input.ready = {Newcomer("a")};
  input.ready_nodes = 1;
  EXPECT_THAT(DecideFormation(input, TimePoint()).reason,
              HasSubstr("1 of 3 nodes is here; waiting for 2 more"));
  input.awaited = {"node2"};
  EXPECT_THAT(DecideFormation(input, TimePoint()).reason, HasSubstr("waiting for node2"));
}

TEST(DecideFormation, ReturnsTheTimeOfTheNextDecision) {
  FormationInput input;
  input.min_nodes = 1;
  input.max_nodes = 2;
  input.ready = {Newcomer("a")};
  input.ready_nodes = 1;
  input.last_call_ends = TimePoint(std::chrono::seconds(1));
  input.recovery_ends = TimePoint(std::chrono::seconds(3));
  EXPECT_EQ(DecideFormation(input, TimePoint()).retry_at, input.recovery_ends);
  EXPECT_FALSE(DecideFormation(input, TimePoint(std::chrono::milliseconds(2999))).form);
  EXPECT_TRUE(DecideFormation(input, TimePoint(std::chrono::seconds(3))).form);
}

TEST(MakeAssignment, RanksAreContiguousForUnevenNodes) {
  Offer a, b;
  a.node_id = "a", a.workers = 3, a.address = "10.0.0.1", a.master_port = 4000;
  a.presence_port = 6000, a.presence_id = 60;
  b.node_id = "b", b.workers = 1, b.address = "10.0.0.2", b.master_port = 5000;
  const Assignment assignment = MakeAssignment(Generation{2, 9}, {b, a}, 1);
  EXPECT_EQ(assignment.world_size, 4);
  EXPECT_EQ(assignment.members[1].first_rank, 1);
  EXPECT_EQ(assignment.members[1].presence_port, 6000);
  EXPECT_EQ(assignment.members[1].presence_id, 60u);
  EXPECT_EQ(assignment.master_address, "10.0.0.2");
  EXPECT_EQ(assignment.master_port, 5000);
  EXPECT_TRUE(ValidateAssignment(assignment).ok());
}

/// Nodes on the machine of the endpoint may be told localhost, while the others are told its address.
TEST(MakeAssignment, NodesOnLoopbackGetTheAddressAtWhichOthersReachTheEndpoint) {
  Offer host, beside, elsewhere, told;
  host.node_id = "host", host.address = "127.0.0.1", host.master_port = 4000;
  beside.node_id = "beside", beside.address = "::1";
  elsewhere.node_id = "elsewhere", elsewhere.address = "10.0.0.2", elsewhere.endpoint_address = "10.0.0.1";
  told.node_id = "told", told.address = "127.0.0.3", told.endpoint_address = "10.0.0.1";
  const auto addresses = [](const std::vector<Offer>& offers) {
    const Assignment assignment = MakeAssignment(Generation{1, 1}, offers, 0);
    std::vector<std::string> all = {assignment.master_address};
    for (const Member& member : assignment.members) all.push_back(member.address);
    return all;
  };
  EXPECT_THAT(addresses({host, beside}), ElementsAre("127.0.0.1", "127.0.0.1", "::1"));
  EXPECT_THAT(addresses({host, beside, elsewhere}),
              ElementsAre("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(addresses({elsewhere, host}), ElementsAre("10.0.0.2", "10.0.0.2", "10.0.0.1"));
  EXPECT_THAT(addresses({host, told}), ElementsAre("10.0.0.1", "10.0.0.1", "127.0.0.3"))
      << "its user gave that address, and it may be anywhere";
}

TEST(ValidateAssignment, RefusesGapsAndDuplicates) {
  Offer a, b;
  a.node_id = "a";
  b.node_id = "b";
  const Assignment good = MakeAssignment(Generation{1, 1}, {a, b}, 0);
  Assignment bad = good;
  const auto refused = [](const char* why) {
    return support::StatusIs(absl::StatusCode::kInvalidArgument, why);
  };
  EXPECT_TRUE(ValidateAssignment(good).ok());
  const auto gap = refused("assignment's ranks are not contiguous at node \"b\"");
  bad.members[1].first_rank = 2;
  EXPECT_THAT(ValidateAssignment(bad), gap);
  bad = good;
  bad.members[1].node_rank = 2;
  EXPECT_THAT(ValidateAssignment(bad), gap);
  bad = good;
  bad.members[1].workers = 0, bad.world_size = 1;
  EXPECT_THAT(ValidateAssignment(bad), gap);
  bad = good;
  bad.members[1].node_id = "a";
  EXPECT_THAT(ValidateAssignment(bad), refused("assignment names node \"a\" twice"));
  bad = good;
  bad.world_size = 3;
  EXPECT_THAT(ValidateAssignment(bad), refused("assignment has 2 workers, its world size is 3"));
  bad.members.clear(), bad.world_size = 0;
  EXPECT_THAT(ValidateAssignment(bad), refused("assignment has 0 workers, its world size is 0"));
}

TEST(ValidateAssignment, RefusesInvalidEarlierGenerations) {
  Offer a, b;
  a.node_id = "a";
  b.node_id = "b";
  const auto error = [&](EarlierGeneration earlier) {
    Assignment assignment = MakeAssignment(Generation{2, 2}, {a, b}, 0);
    earlier.generation = {1, 1};
    assignment.earlier = {std::move(earlier)};
    return std::string(ValidateAssignment(assignment).message());
  };
  Member c, d;
  c.node_id = "c";
  d.node_id = "d";
  EXPECT_EQ(error({{}, {"b"}, {c, d}, {"d"}}), "");
  EXPECT_EQ(error({{}, {}, {c, c}, {}}), "generation 1, an earlier one, names node \"c\" twice");
  Member twin = c;
  twin.node_id = "a";
  EXPECT_EQ(error({{}, {}, {twin}, {}}), "generation 1, an earlier one, names node \"a\" twice");
  EXPECT_EQ(error({{}, {"c"}, {c}, {}}), "generation 1, an earlier one, names nodes that are not in it");
  EXPECT_EQ(error({{}, {}, {c}, {"d"}}), "generation 1, an earlier one, names nodes that are not in it");
}

}  // namespace
}  // namespace mtrun::rendezvous
