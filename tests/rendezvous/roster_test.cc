#include "rendezvous/authority/roster.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr TimePoint kBegin;
constexpr Duration kLease = milliseconds(1500), kGrace = milliseconds(200);  // defaults of JobSettings

std::vector<std::string> Ids(const std::vector<Roster::Lost>& lost) {
  std::vector<std::string> ids;
  for (const Roster::Lost& node : lost) ids.push_back(node.node_id);
  return ids;
}

TEST(Roster, SilentNodeIsLostAfterItsLease) {
  Roster roster = Here({"node1", "node2"});
  EXPECT_EQ(roster.NextLoss(), kBegin + kLease);
  roster.Touch("node1", kBegin + seconds(1));
  EXPECT_THAT(Ids(roster.Expired(false, kBegin + kLease)), ElementsAre("node2"));
  EXPECT_EQ(roster.Expired(false, kBegin + kLease)[0].why,
            (NodeLost{.how = NodeLost::How::kSilent, .time = kLease}));
  EXPECT_THAT(Ids(roster.Expired(true, kBegin)), ElementsAre("node1", "node2"));
}

TEST(Roster, BrokenStreamIsLostAfterItsGrace) {
  Roster roster = Here({"node1"});
  roster.Close("node1", {"connection reset"}, kBegin);
  roster.Touch("node1", kBegin);  // read late from its stream
  EXPECT_EQ(roster.NextLoss(), kBegin + kGrace);
  EXPECT_EQ(roster.Expired(false, kBegin + kGrace)[0].why, NodeLost{"connection reset"});
  roster.Open("node1", kBegin + milliseconds(100));
  EXPECT_THAT(roster.Expired(false, kBegin + kGrace), IsEmpty());
}

TEST(Roster, LateTicksExtendALeaseAtMostMaxExtensionsTimes) {
  Roster roster = Here({"node1"});
  for (int i = 0; i < Roster::kMaxExtensions; ++i) roster.ExtendLeases(seconds(1), kBegin);
  const auto spared = roster.NextLoss();
  EXPECT_EQ(spared, kBegin + kLease + seconds(Roster::kMaxExtensions));
  roster.ExtendLeases(seconds(1), kBegin);
  EXPECT_EQ(roster.NextLoss(), spared);
  roster.Touch("node1", kBegin);
  roster.ExtendLeases(seconds(1), kBegin);
  EXPECT_EQ(roster.NextLoss(), kBegin + kLease + seconds(1));
}

TEST(Roster, StuckMainLoopIsReportedOnce) {
  Roster roster = Here({"node1"});
  const RosterNode& node = *roster.Find("node1");
  EXPECT_FALSE(roster.Beat("node1", {.main_loop_age = seconds(9)}, kBegin));
  EXPECT_TRUE(roster.Beat("node1", {.main_loop_age = seconds(10)}, kBegin));
  EXPECT_FALSE(roster.Beat("node1", {.main_loop_age = seconds(11), .note = "busy"}, kBegin + seconds(1)));
  EXPECT_EQ(node.noted_at, kBegin + seconds(1));
  EXPECT_FALSE(roster.Beat("node1", {.main_loop_age = seconds(0), .note = "busy"}, kBegin + seconds(2)));
  EXPECT_EQ(node.noted_at, kBegin + seconds(1));
  EXPECT_TRUE(roster.Beat("node1", {.main_loop_age = seconds(10), .note = "busy"}, kBegin + seconds(3)));
}

TEST(Roster, NodeIsNamedByItsHostIfUnique) {
  Roster roster = Here({"node1"});
  EXPECT_EQ(roster.Name("unknown"), "unknown");
  EXPECT_EQ(roster.Name("node1"), "node1");
  for (const char* id : {"host-1-a", "host-2-b"}) {
    Offer offer = MakeOffer("host");
    offer.node_id = id;
    roster.Open(id, kBegin);
    roster.TakeOffer(id, offer);
    EXPECT_EQ(roster.Name(id), roster.size() == 2 ? "host" : "host-2-b");
  }
  EXPECT_EQ(roster.Name("host-1-a"), "host-1-a");
}

TEST(Roster, CandidatesAreReadyStartingOrAwaited) {
  Roster roster = Here({"node1", "node2", "node3", "node4"});
  roster.TakeOffer("node2", MakeOffer("node2", 0));
  roster.Change("node3", [](RosterNode& node) { node.offered = false, node.place = 2; });
  roster.Close("node4", {"reset"}, kBegin);
  const FormationInput counted = roster.Candidates(false), whole = roster.Candidates(true);
  EXPECT_EQ(counted.ready_nodes, 1u);
  EXPECT_THAT(counted.ready, IsEmpty());
  ASSERT_THAT(whole.ready, SizeIs(1));
  EXPECT_EQ(whole.ready[0].node_id, "node1");
  EXPECT_THAT(whole.starting, ElementsAre("node2"));
  EXPECT_THAT(whole.awaited, ElementsAre("node3"));
}

TEST(Roster, FewOfManyAwaitedNodesAreNamed) {
  Roster roster{JobSettings{}};
  for (int i = 10; i < 50; ++i) {
    const std::string node_id = absl::StrCat("node", i);
    roster.Open(node_id, kBegin);
    roster.Change(node_id, [&](RosterNode& node) { node.place = i; });
  }
  EXPECT_THAT(roster.Candidates(false).awaited, ElementsAre("node10", "node11", "node12", "and 37 more"));
}

TEST(Roster, OfferKeepsItsPlaceInTheQueueUntilItIsTaken) {
  Roster roster = Here({"node1", "node2"});
  const RosterNode& node = *roster.Find("node1");
  const uint64_t arrival = node.arrival;
  roster.TakeOffer("node1", MakeOffer("node1", 2));
  EXPECT_EQ(node.arrival, arrival);
  roster.Change("node1", [](RosterNode& changed) { changed.offered = false; });
  roster.TakeOffer("node1", MakeOffer("node1"));
  EXPECT_GT(node.arrival, roster.Find("node2")->arrival);
}

TEST(Roster, MemberOfAnAdoptedGenerationIsExpectedUntilADeadline) {
  Roster roster = Here({"node1"});
  const Assignment held = MakeGeneration(3, {"node1", "node2"});
  roster.Follow(held);
  roster.ExpectAll(held, kBegin + seconds(3), kBegin);
  EXPECT_FALSE(roster.Find("node1")->expected);
  EXPECT_EQ(roster.Find("node2")->place, 1);
  EXPECT_EQ(roster.Find("node2")->joined, 3u);
  EXPECT_THAT(Ids(roster.Expired(false, kBegin + seconds(3))), ElementsAre("node1", "node2"));
  EXPECT_FALSE(roster.attendance().AllConfirmed());
  for (const char* id : {"node1", "node2"})
    roster.Change(id, [](RosterNode& node) { node.confirmed = true; });
  EXPECT_TRUE(roster.attendance().AllConfirmed());
  EXPECT_TRUE(roster.Consistent(held));
}

TEST(Roster, ExpectUntilOnlyShortensTheDeadline) {
  Roster roster = Here({"node1"});
  const TimePoint here_until = roster.Find("node1")->lost_at;
  roster.ExpectAll(MakeGeneration(3, {"node1", "node2"}), kBegin + seconds(3), kBegin);
  roster.ExpectUntil(kBegin + seconds(1));
  EXPECT_EQ(roster.Find("node2")->lost_at, kBegin + seconds(1));
  EXPECT_EQ(roster.Find("node1")->lost_at, here_until) << "it is here";
  roster.ExpectUntil(kBegin + seconds(2));
  EXPECT_EQ(roster.Find("node2")->lost_at, kBegin + seconds(1)) << "once said it stands";
}

TEST(Roster, ReportsWhetherOthersCanRunTheProgram) {
  Roster roster = Here({"node1", "node2"});
  EXPECT_FALSE(roster.RunsWithout("node2", /*progressed=*/false));
  EXPECT_TRUE(roster.RunsWithout("node2", /*progressed=*/true));
  roster.Change("node2", [](RosterNode& node) { node.joined = 2; });
  EXPECT_FALSE(roster.RunsWithout("node2", false)) << "node1 was in no generation";
  roster.Change("node1", [](RosterNode& node) { node.joined = 1; });
  EXPECT_TRUE(roster.RunsWithout("node2", false));
  EXPECT_FALSE(roster.RunsWithout("node1", false));
  roster.Change("node1", [](RosterNode& node) { node.greeted = false; });  // it may be dead
  EXPECT_FALSE(roster.RunsWithout("node2", true));
}

/// R1.
TEST(Roster, NodeWithANewerGenerationHasYetToReport) {
  Roster roster{JobSettings()};
  const TimePoint now = TimePoint(std::chrono::seconds(1));
  roster.Open("node1", now);
  roster.Change("node1", [](RosterNode& node) { node.seen = 3; });
  EXPECT_EQ(roster.YetToSay(2), "node1");
  EXPECT_EQ(roster.YetToSay(3), "");
  roster.Change("node1", [](RosterNode& node) { node.greeted = true; });
  EXPECT_EQ(roster.YetToSay(2), "") << "it has said it";
  roster.Change("node1", [](RosterNode& node) { node.greeted = false; });
  roster.Close("node1", {"reset"}, now);
  EXPECT_EQ(roster.YetToSay(2), "") << "it is away";
}

TEST(Roster, IsAValue) {
  Roster a = Here({"node1"}), b = a;
  EXPECT_EQ(a, b);
  b.Close("node1", {"reset"}, kBegin);
  EXPECT_FALSE(a == b);
  EXPECT_THAT(b.Describe(kBegin), HasSubstr("node1 away ready place -, lost +0.200 s after 0 extensions"));
}

}  // namespace
}  // namespace mtrun::rendezvous
