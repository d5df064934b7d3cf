#include "rendezvous/control_news.h"

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

/// Who is told since the last time, as "node1 leaves" or "node1 hears".
std::vector<std::string> Told(EffectList& effects) {
  std::vector<std::string> told;
  for (const Effect& effect : effects.Take()) {
    const auto& sent = std::get<Send>(effect);
    told.push_back(sent.node_id + (std::get<ControlCall>(sent.event).leave ? " leaves" : " hears"));
  }
  return told;
}

const TimePoint kNow{std::chrono::hours(1)};
const Generation kHeld{4, 7};
const ControlCall kDrainNode2{.call = ControlCall::kDrain, .node = "node2"};
const ControlCall kSaveAndStop{
    .call = ControlCall::kStop, .checkpoint = true, .by = {.user = "anna", .host = "login1"}};

TEST(ControlNews, EveryNodeHearsAndTheOneThatIsMeantLeaves) {
  ControlNews news;
  EffectList effects;
  news.Tell(kDrainNode2, "node2", "", Here({"node1", "node2"}), &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node1 hears", "node2 leaves"));
  news.OnOpened("node3", kNow, &effects);
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
  news.OnOpened("node1", kNow, &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "once";
  news.OnOpened("node3", kNow, &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node3 leaves"));
  news.OnGone("node1");
  news.OnOpened("node1", kNow, &effects);
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

TEST(ControlNews, AnEvictedNodeThatComesBackHearsWhoAskedForItAndWhen) {
  const ControlCall evict{
      .call = ControlCall::kEvict, .node = "node2", .by = {.user = "anna", .host = "login1", .pid = 4711}};
  ControlNews news;
  EffectList effects;
  news.OnEvicted("node2", evict, kNow);
  EXPECT_EQ(news.Describe(), "node2 is evicted");
  const TimePoint later = kNow + std::chrono::seconds(12);
  news.OnOpened("node1", later, &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "the others have heard it";
  EXPECT_EQ(news.WhyOver("node1", kHeld, later), "the job has left generation 4");

  news.OnOpened("node2", later, &effects);
  ControlCall told = evict;
  told.age = std::chrono::seconds(12);
  EXPECT_THAT(effects.Take(), ElementsAre(Effect(Send{"node2", told})));
  EXPECT_EQ(news.WhyOver("node2", kHeld, later),
            absl::StrCat("node2 was evicted ", HumanDuration(told.age), " ago by anna@login1 (pid 4711)"));
  news.OnOpened("node2", later, &effects);
  EXPECT_THAT(Told(effects), IsEmpty()) << "once";
  news.OnGone("node2");
  news.OnOpened("node2", later, &effects);
  EXPECT_THAT(Told(effects), ElementsAre("node2 hears")) << "its session may have lost the news";

  news.OnReady("node2");
  EXPECT_EQ(news.WhyOver("node2", kHeld, later), "the job has left generation 4");
  EXPECT_EQ(news, ControlNews());
}

TEST(ControlNews, OfManyThatNeverComeBackTheEarliestAreForgotten) {
  ControlNews news;
  for (int i = 0; i < 257; ++i) {
    const ControlCall evict{.call = ControlCall::kEvict, .node = absl::StrCat("node", i)};
    news.OnEvicted(evict.node, evict, kNow + std::chrono::seconds(i));
  }
  const TimePoint later = kNow + std::chrono::hours(1);
  EXPECT_EQ(news.WhyOver("node0", kHeld, later), "the job has left generation 4");
  EXPECT_THAT(news.WhyOver("node1", kHeld, later), HasSubstr("node1 was evicted"));
  EXPECT_THAT(news.WhyOver("node256", kHeld, later), HasSubstr("node256 was evicted"));
}

}  // namespace
}  // namespace mtrun::rendezvous
