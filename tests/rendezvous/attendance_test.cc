#include "rendezvous/authority/attendance.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

NodeFacets Greeted() {
  NodeFacets facets;
  facets.here = facets.connected = facets.greeted = true;
  facets.workers = 1;
  return facets;
}

Attendance OfThree() {
  Attendance attendance;
  attendance.Follow(MakeGeneration(2, {"node1", "node2", "node3"}));
  return attendance;
}

TEST(Attendance, EveryMemberIsAbsentAtFirst) {
  const Attendance attendance = OfThree();
  EXPECT_THAT(attendance.absent(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(attendance.MostConfirmed());
  EXPECT_THAT(attendance.untold(), IsEmpty());
}

TEST(Attendance, CountsConfirmedMembers) {
  Attendance attendance = OfThree();
  NodeFacets confirmed = Greeted();
  confirmed.confirmed = true;
  attendance.Change("node1", NodeFacets(), confirmed);
  attendance.Change("node9", NodeFacets(), confirmed);  // in an earlier one
  EXPECT_FALSE(attendance.MostConfirmed());
  attendance.Change("node2", NodeFacets(), confirmed);
  EXPECT_TRUE(attendance.MostConfirmed() && !attendance.AllConfirmed());
  attendance.Change("node3", NodeFacets(), confirmed);
  EXPECT_TRUE(attendance.AllConfirmed());
  attendance.Change("node2", confirmed, NodeFacets());
  EXPECT_FALSE(attendance.AllConfirmed());
  EXPECT_THAT(attendance.absent(), ElementsAre(1));
}

TEST(Attendance, NamesMembersOfOrdinaryProgramsAndThoseWhoseStreamsHaveEnded) {
  Attendance attendance = OfThree();
  NodeFacets ordinary = Greeted();
  ordinary.ordinary = true;
  attendance.Change("node9", NodeFacets(), ordinary);
  EXPECT_FALSE(attendance.ordinary()) << "it is no member";
  attendance.Change("node2", NodeFacets(), ordinary);
  EXPECT_TRUE(attendance.ordinary());
  NodeFacets away = ordinary;
  away.connected = false;
  attendance.Change("node2", ordinary, away);
  EXPECT_THAT(attendance.fallen(), ElementsAre(1));
  attendance.Change("node2", away, NodeFacets());
  EXPECT_FALSE(attendance.ordinary());
  EXPECT_THAT(attendance.fallen(), IsEmpty());
}

TEST(Attendance, DescribesItsState) {
  EXPECT_EQ(Attendance().Describe(), "no generation");
  Attendance attendance = OfThree();
  EXPECT_EQ(attendance.Describe(), "generation 2: 0 of 3 confirmed, absent 0 1 2");
  NodeFacets grown = Greeted();
  grown.confirmed = true;
  grown.workers = 2;
  attendance.Change("node2", NodeFacets(), grown);
  attendance.Change("node9", NodeFacets(), Greeted());
  EXPECT_EQ(attendance.Describe(), "generation 2: 1 of 3 confirmed, absent 0 2, grown 1, untold node2 node9");
}

TEST(Attendance, NamesMembersWithMoreWorkersThanRanks) {
  Attendance attendance = OfThree();
  NodeFacets grown = Greeted();
  grown.workers = 2;
  attendance.Change("node3", NodeFacets(), grown);
  attendance.Change("node9", NodeFacets(), grown);
  EXPECT_THAT(attendance.grown(), ElementsAre(2));
  attendance.Change("node3", grown, Greeted());
  EXPECT_THAT(attendance.grown(), IsEmpty());
}

TEST(Attendance, ConnectedNodesOfAnotherGenerationAreUntold) {
  Attendance attendance = OfThree();
  NodeFacets told = Greeted(), away = Greeted();
  told.knows = {2, 22};
  away.connected = false;
  attendance.Change("node1", NodeFacets(), Greeted());
  attendance.Change("node9", NodeFacets(), Greeted());
  attendance.Change("node8", NodeFacets(), away);
  EXPECT_THAT(attendance.untold(), ElementsAre("node1", "node9"));
  attendance.Change("node9", Greeted(), told);
  EXPECT_THAT(attendance.untold(), ElementsAre("node1"));
}

TEST(Attendance, IsEmptyWithoutAGeneration) {
  Attendance attendance = OfThree();
  attendance.Change("node1", NodeFacets(), Greeted());
  attendance.Follow(std::nullopt);
  attendance.Change("node2", NodeFacets(), Greeted());
  EXPECT_EQ(attendance, Attendance());
}

}  // namespace
}  // namespace mtrun::rendezvous
