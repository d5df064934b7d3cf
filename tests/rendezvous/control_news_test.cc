#include "rendezvous/control_news.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Who is told since the last time, as "node1 leaves" or "node1 hears".
std::vector<std::string> Told(EffectList& effects) {
  std::vector<std::string> told;
  for (const Effect& effect : effects.Take()) {
    const auto& sent = std::get<Send>(effect);
    told.push_back(sent.node_id + (std::get<ControlCall>(sent.event).leave ? " leaves" : " hears"));
  }
  return told;
}

const ControlCall kDrainNode2{.call = ControlCall::kDrain, .node = "node2"};
const ControlCall kSaveAndStop{
    .call = ControlCall::kStop, .checkpoint = true, .by = {.user = "anna", .host = "login1"}};

TEST(ControlNews, EveryNodeHearsAndTheOneThatIsMeantLeaves) {
  ControlNews news;
  EffectList effects;
  news.Tell(kDrainNode2, "node2", "", Here({"node1", "node2"}), &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node1 hears", "node2 leaves"));
  news.OnOpened("node3", &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "it came later";
  EXPECT_EQ(news, ControlNews());
}

TEST(ControlNews, NeitherWhoIsExceptedNorWhoHasNoSessionIsTold) {
  Roster roster = Here({"node1", "node2", "node3"});
  roster.Change("node3", [](RosterNode& node) { node.expected = true; });
  ControlNews news;
  EffectList effects;
  news.Tell(kDrainNode2, "node2", "node1", roster, &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node2 leaves"));
}

TEST(ControlNews, WithAStopThatSavesAllLeaveAndSoDoThoseThatCome) {
  ControlNews news;
  EffectList effects;
  news.Tell(kSaveAndStop, "", "", Here({"node1", "node2"}), &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node1 leaves", "node2 leaves"));
  EXPECT_EQ(news.Describe(), "all are to leave; told: node1, node2");
  news.OnOpened("node1", &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "once";
  news.OnOpened("node3", &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node3 leaves"));
  news.OnGone("node1");
  news.OnOpened("node1", &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node1 leaves")) << "its session may have lost the news";
}

TEST(ControlNews, TheLastNodeEndsTheJobAsWasAsked) {
  ControlNews news;
  EffectList effects;
  EXPECT_EQ(news.Describe(), "");
  const JobOutcome left = news.OutcomeOfLast("node1: SIGTERM");
  EXPECT_FALSE(left.stopped);
  EXPECT_THAT(left.reason, HasSubstr("every node has left, the last one: node1: SIGTERM"));
  news.Tell(kSaveAndStop, "", "", Here({"node1"}), &effects);
  const JobOutcome stopped = news.OutcomeOfLast("node1: SIGTERM");
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM);
  EXPECT_THAT(stopped.reason, HasSubstr("stopped by anna@login1"));
}

}  // namespace
}  // namespace mtrun::rendezvous
