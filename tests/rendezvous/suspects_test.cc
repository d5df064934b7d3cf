#include "rendezvous/job/suspects.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/events.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kNoQuorum = 1;
TimePoint SuspectAt(int second) { return TimePoint(seconds(second)); }

JobSettings WithLeast(int min_nodes) {
  JobSettings settings;
  settings.min_nodes = min_nodes;
  settings.max_nodes = 3;
  return settings;
}

/// Generation 1 of three nodes that run an ordinary program, heard last at 0 s.
class SuspectsTest : public ::testing::Test {
 protected:
  explicit SuspectsTest(int min_nodes = 3) : settings_(WithLeast(min_nodes)) {
    roster_.Follow(generation_.last());
    departures_.OnGeneration(*generation_.last(), SuspectAt(0));
    for (const char* node : {"node1", "node2", "node3"}) {
      roster_.Beat(node, {.ordinary = true}, SuspectAt(0));
      roster_.Change(node, [](RosterNode& member) { member.offered = false; });
    }
  }
  MembershipView View() const { return {generation_, roster_, departures_}; }
  bool PutOff(const std::string& node, int second) {
    return suspects_.PutOff(node, View(), kNoQuorum, &roster_, &effects_, SuspectAt(second));
  }
  std::vector<std::string> Settle(int second, size_t quorum = kNoQuorum) {
    return suspects_.Settle(View(), quorum, SuspectAt(second));
  }
  /// Returns the next line of the log, "" for none.
  std::string Line() {
    const std::vector<Effect> effects = effects_.Take();
    return effects.empty() ? "" : std::get<LogLine>(effects.front()).text;
  }

  JobSettings settings_;
  GenerationRecord generation_ = Running(1, {"node1", "node2", "node3"});
  Roster roster_ = Here({"node1", "node2", "node3"});
  Departures departures_{settings_};
  Suspects suspects_{settings_};
  EffectList effects_;
};

class SpareSuspectsTest : public SuspectsTest {
 protected:
  SpareSuspectsTest() : SuspectsTest(2) {}
};

TEST_F(SuspectsTest, NeededMemberIsSuspectedUntilItsLeaseEnds) {
  EXPECT_TRUE(PutOff("node2", 2));
  EXPECT_FALSE(suspects_.Suspected("node2")) << "it is silent for a moment";
  EXPECT_EQ(roster_.Find("node2")->lost_at, SuspectAt(15));
  EXPECT_EQ(Line(), "");
  EXPECT_TRUE(PutOff("node2", 15));
  EXPECT_TRUE(suspects_.Suspected("node2"));
  EXPECT_THAT(Line(), HasSubstr("node2 is suspected to be gone: no heartbeat for 15.0 s"));
  EXPECT_FALSE(PutOff("node2", 32));
  EXPECT_TRUE(suspects_.empty());
}

TEST_F(SuspectsTest, MemberThatIsHeardIsBack) {
  EXPECT_TRUE(PutOff("node2", 2));
  suspects_.OnHeard("node2", View(), &effects_, SuspectAt(3));
  EXPECT_TRUE(suspects_.Has("node2")) << "nothing came";
  roster_.Touch("node2", SuspectAt(4));
  suspects_.OnHeard("node2", View(), &effects_, SuspectAt(4));
  EXPECT_EQ(Line(), "node2 is back after 4.0 s of silence; generation 1 continues");
  EXPECT_EQ(suspects_, Suspects(settings_));
}

TEST_F(SpareSuspectsTest, MemberThatTheJobCanDoWithoutIsLostAfterTheLimit) {
  EXPECT_TRUE(PutOff("node2", 2));
  EXPECT_FALSE(PutOff("node2", 15));
}

TEST_F(SpareSuspectsTest, SilentMembersDoNotReplaceEachOther) {
  EXPECT_TRUE(PutOff("node2", 2) && PutOff("node3", 2));
  EXPECT_TRUE(PutOff("node2", 15) && PutOff("node3", 15));
  EXPECT_THAT(Settle(16), IsEmpty());
  roster_.Touch("node2", SuspectAt(17));
  suspects_.OnHeard("node2", View(), &effects_, SuspectAt(17));
  EXPECT_THAT(Settle(17), ElementsAre("node3"));
}

TEST_F(SpareSuspectsTest, MemberIsNeededForAQuorum) {
  const auto put_off = [&](size_t quorum) {
    Suspects copy = suspects_;
    return copy.PutOff("node2", View(), quorum, &roster_, &effects_, SuspectAt(16));
  };
  EXPECT_FALSE(put_off(2));
  EXPECT_TRUE(put_off(3));
}

TEST_F(SuspectsTest, EndedGenerationNeedsNoSuspect) {
  EXPECT_TRUE(PutOff("node2", 2) && PutOff("node3", 2) && PutOff("node2", 15));
  EXPECT_THAT(Settle(15), IsEmpty());
  generation_.Stop();
  EXPECT_THAT(Settle(16), ElementsAre("node2", "node3"));
}

TEST_F(SuspectsTest, EndOfAStreamIsALossIfTheHostRefusesOrCannotSay) {
  const NodeLost reset{.how = NodeLost::How::kConnectionBroke};
  roster_.Close("node2", reset, SuspectAt(1));
  EXPECT_TRUE(PutOff("node2", 2));
  EXPECT_EQ(suspects_.fallen(), 1u);
  roster_.Change("node2", [](RosterNode& node) { node.refused = true; });
  EXPECT_FALSE(PutOff("node2", 3));
  EXPECT_EQ(suspects_.fallen(), 0u);
}

TEST_F(SuspectsTest, CooperativeMembersAreLostAtOnce) {
  for (const char* node : {"node1", "node2", "node3"}) roster_.Beat(node, {}, SuspectAt(0));
  EXPECT_FALSE(PutOff("node2", 2));
}

}  // namespace
}  // namespace mtrun::rendezvous
