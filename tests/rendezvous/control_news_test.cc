#include "rendezvous/job/control_news.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns which nodes were notified since the last call: "node1 leaves" or "node1 hears".
std::vector<std::string> Told(EffectList& effects) {
  std::vector<std::string> told;
  for (const Effect& effect : effects.Take()) {
    const auto& sent = std::get<Send>(effect);
    told.push_back(sent.node_id + (std::get<ControlCall>(sent.event).leaves() ? " leaves" : " hears"));
  }
  return told;
}

std::string WhyOver(const ControlNews& news, const std::string& node_id, const Generation& held,
                    TimePoint now) {
  return Describe(news.WhyOver(node_id, held, now));
}

const TimePoint kNow{std::chrono::hours(1)};
const Generation kHeld{4, 7};
const ControlCall kDrainNode2{DrainCall{"node2"}};
const ControlCall kSaveAndStop{StopCall{.checkpoint = true}, {.user = "anna", .host = "login1"}};

TEST(ControlNews, EveryNodeIsNotifiedAndTheTargetLeaves) {
  ControlNews news;
  EffectList effects;
  news.Tell(kDrainNode2, "node2", "", Here({"node1", "node2"}), &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node1 hears", "node2 leaves"));
  news.OnOpened("node3", kNow, &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "it came later";
  EXPECT_EQ(news, ControlNews());
}

TEST(ControlNews, ExcludedAndDisconnectedNodesAreNotNotified) {
  Roster roster = Here({"node1", "node2", "node3"});
  roster.Change("node3", [](RosterNode& node) { node.expected = true; });
  ControlNews news;
  EffectList effects;
  news.Tell(kDrainNode2, "node2", "node1", roster, &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node2 leaves"));
}

TEST(ControlNews, StopWithCheckpointDrainsPresentAndLaterNodes) {
  ControlNews news;
  EffectList effects;
  news.Tell(kSaveAndStop, "", "", Here({"node1", "node2"}), &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node1 leaves", "node2 leaves"));
  EXPECT_EQ(news.Describe(), "all are to leave; told: node1, node2");
  news.OnOpened("node1", kNow, &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "once";
  news.OnOpened("node3", kNow, &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node3 leaves"));
  news.OnGone("node1");
  news.OnOpened("node1", kNow, &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node1 leaves")) << "its session may have lost the news";
}

TEST(ControlNews, LastNodeEndsTheJobAsRequested) {
  ControlNews news;
  EffectList effects;
  EXPECT_EQ(news.Describe(), "");
  const Cause leaves{"node1", "node1", NodeLeft{"SIGTERM"}};
  EXPECT_EQ(news.OutcomeOfLast(leaves, /*lost=*/true), std::nullopt);
  const JobOutcome left = *news.OutcomeOfLast(leaves, /*lost=*/false);
  EXPECT_FALSE(left.stopped);
  EXPECT_THAT(left.reason, HasSubstr("every node has left, the last one: node1 leaves: SIGTERM"));
  news.Tell(kSaveAndStop, "", "", Here({"node1"}), &effects);
  const JobOutcome stopped = *news.OutcomeOfLast(leaves, /*lost=*/true);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM);
  EXPECT_THAT(stopped.reason, HasSubstr("stopped by anna@login1"));
}

TEST(ControlNews, ReturningEvictedNodeLearnsRequesterAndTime) {
  const ControlCall evict{EvictCall{"node2"}, {.user = "anna", .host = "login1", .pid = 4711}};
  ControlNews news;
  EffectList effects;
  news.OnEvicted("node2", evict, kNow);
  EXPECT_EQ(news.Describe(), "node2 is evicted");
  const TimePoint later = kNow + std::chrono::seconds(12);
  news.OnOpened("node1", later, &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "the others have heard it";
  EXPECT_EQ(WhyOver(news, "node1", kHeld, later), "the job has left generation 4");

  news.OnOpened("node2", later, &effects);
  const ControlCall told{EvictCall{"node2", std::chrono::seconds(12)}, evict.by};
  EXPECT_THAT(effects.Take(), ElementsAre(Effect(Send{"node2", told})));
  EXPECT_EQ(WhyOver(news, "node2", kHeld, later),
            absl::StrCat("node2 was evicted ", HumanDuration(std::chrono::seconds(12)),
                         " ago by anna@login1 (pid 4711)"));
  news.OnOpened("node2", later, &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "once";
  news.OnGone("node2");
  news.OnOpened("node2", later, &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node2 hears")) << "its session may have lost the news";

  news.OnReady("node2");
  EXPECT_EQ(WhyOver(news, "node2", kHeld, later), "the job has left generation 4");
  EXPECT_EQ(news, ControlNews());
}

TEST(ControlNews, EarliestEvictionsAreForgottenBeyondTheLimit) {
  ControlNews news;
  for (int i = 0; i < 257; ++i) {
    const std::string node = absl::StrCat("node", i);
    news.OnEvicted(node, {EvictCall{node}, {}}, kNow + std::chrono::seconds(i));
  }
  const TimePoint later = kNow + std::chrono::hours(1);
  EXPECT_EQ(WhyOver(news, "node0", kHeld, later), "the job has left generation 4");
  EXPECT_THAT(WhyOver(news, "node1", kHeld, later), HasSubstr("node1 was evicted"));
  EXPECT_THAT(WhyOver(news, "node256", kHeld, later), HasSubstr("node256 was evicted"));
}

}  // namespace
}  // namespace mtrun::rendezvous
