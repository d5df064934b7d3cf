#include "rendezvous/authority/roster_index.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr TimePoint kIndexBegin;

NodeFacets Ready(const std::string& told, TimePoint lost_at = kIndexBegin) {
  NodeFacets facets;
  facets.here = facets.ready = true;
  facets.host = "host";
  facets.told = told;
  facets.lost_at = lost_at;
  return facets;
}

TEST(RosterIndex, TracksANodeUntilItLeaves) {
  RosterIndex index;
  const NodeFacets here = Ready("old", kIndexBegin + seconds(2));
  index.Change("a", NodeFacets(), here);
  EXPECT_THAT(index.ready(), ElementsAre("a"));
  EXPECT_THAT(index.told(), ElementsAre(Pair("old", ElementsAre("a"))));
  EXPECT_EQ(index.CountOf("host"), 1u);
  NodeFacets starting = here;
  starting.ready = false, starting.starting = true;
  index.Change("a", here, starting);
  EXPECT_THAT(index.ready(), IsEmpty());
  EXPECT_THAT(index.starting(), ElementsAre("a"));
  EXPECT_THAT(index.told(), IsEmpty()) << "those that are ready wait";
  NodeFacets awaited = starting;
  awaited.starting = false, awaited.awaited = awaited.expected = true, awaited.host = "other";
  index.Change("a", starting, awaited);
  EXPECT_THAT(index.awaited(), ElementsAre("a"));
  EXPECT_THAT(index.expected(), ElementsAre("a"));
  EXPECT_EQ(index.CountOf("host"), 0u);
  index.Change("a", awaited, NodeFacets());
  EXPECT_EQ(index, RosterIndex()) << "nothing of it is left";
}

TEST(RosterIndex, GroupsNodesByTheirLastNotice) {
  RosterIndex index;
  for (const char* id : {"a", "b", "c"}) index.Change(id, NodeFacets(), Ready(""));
  index.Change("b", Ready(""), Ready("news"));
  EXPECT_THAT(index.told(), ElementsAre(Pair("", ElementsAre("a", "c")), Pair("news", ElementsAre("b"))));
}

TEST(RosterIndex, OrdersLossesByTime) {
  RosterIndex index;
  index.Change("a", NodeFacets(), Ready("", kIndexBegin + seconds(1)));
  index.Change("b", NodeFacets(), Ready("", kIndexBegin + seconds(2)));
  index.ChangeLoss("a", kIndexBegin + seconds(1), kIndexBegin + seconds(3));
  EXPECT_THAT(index.losses(),
              ElementsAre(Pair(kIndexBegin + seconds(2), "b"), Pair(kIndexBegin + seconds(3), "a")));
  index.Change("b", Ready("", kIndexBegin + seconds(2)), Ready("news", kIndexBegin + seconds(4)));
  EXPECT_EQ(index.losses().begin()->second, "a");
}

TEST(RosterIndex, FindsNodesOfAnotherRun) {
  RosterIndex index;
  const JobRun run(9, kIndexBegin);
  NodeFacets own = Ready(""), other = Ready("");
  own.run = 9, other.run = 8;
  index.Change("a", NodeFacets(), Ready(""));
  index.Change("b", NodeFacets(), own);
  EXPECT_FALSE(index.KnowsOther(run)) << "one knows none, one this one";
  index.Change("c", NodeFacets(), other);
  EXPECT_TRUE(index.KnowsOther(run));
  index.Change("c", other, own);
  EXPECT_FALSE(index.KnowsOther(run));
}

}  // namespace
}  // namespace mtrun::rendezvous
