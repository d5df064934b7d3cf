#include "rendezvous/job/node_views.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> States(const Roster& roster, const GenerationRecord& generation,
                                bool ended = false) {
  std::vector<std::string> states;
  for (const NodeView& view : MakeNodeViews(roster, generation, ended, TimePoint()))
    states.push_back(view.node_id + ": " + view.state);
  return states;
}

TEST(JobView, MembersAreListedFirstByRank) {
  GenerationRecord generation = Running(1, {"node3", "node2"});
  Roster roster = Here({"node1", "node2", "node3"});
  roster.Change("node2", [](RosterNode& node) { node.confirmed = true; });
  roster.Close("node3", {"reset"}, TimePoint());
  EXPECT_THAT(States(roster, generation),
              ElementsAre("node3: member, unconfirmed, away", "node2: member", "node1: spare"));
  generation.Finish("node2");
  EXPECT_THAT(States(roster, generation),
              ElementsAre("node3: member, unconfirmed, away", "node2: finished", "node1: spare"));
  generation.Stop();
  EXPECT_THAT(States(roster, generation), ElementsAre("node1: ready", "node2: ready", "node3: ready, away"));
  roster.Change("node1", [](RosterNode& node) { node.offered = false; });
  EXPECT_THAT(States(roster, generation),
              ElementsAre("node1: not ready", "node2: ready", "node3: ready, away"));
  EXPECT_THAT(States(roster, generation, /*ended=*/true),
              ElementsAre("node1: ended", "node2: ended", "node3: ended, away"));
}

TEST(JobView, ShowsPlaceAndSilenceOfANode) {
  const GenerationRecord generation = Running(1, {"node1", "node2"});
  Roster roster = Here({"node2"});
  roster.Beat("node2", {.main_loop_age = std::chrono::seconds(2), .note = "drains"}, TimePoint());
  const auto views =
      MakeNodeViews(roster, generation, /*ended=*/false, TimePoint() + std::chrono::seconds(1));
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].node_rank, 1);
  EXPECT_EQ(views[0].first_rank, 1);
  EXPECT_EQ(views[0].workers, 1);
  EXPECT_EQ(views[0].address, "10.0.0.1");
  EXPECT_EQ(views[0].silent_for, std::chrono::seconds(1));
  EXPECT_EQ(views[0].main_loop_age, std::chrono::seconds(2));
  EXPECT_EQ(views[0].note, "drains");
  EXPECT_EQ(views[0].note_age, std::chrono::seconds(1));
}

}  // namespace
}  // namespace mtrun::rendezvous
