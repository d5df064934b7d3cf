#include "rendezvous/job/separations.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/authority/formation.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TimePoint kReported = TimePoint() + seconds(100);

class SeparationsTest : public testing::Test {
 protected:
  /// A generation of nodes a, b, c, d with two workers each runs.
  void SetUp() override { Begin({"a", "b", "c", "d"}); }
  void Begin(const std::vector<std::string>& nodes) {
    std::vector<Offer> offers;
    for (const std::string& node : nodes) {
      Offer offer;
      offer.node_id = offer.host = node;
      offer.workers = 2;
      offers.push_back(offer);
      roster_.Open(node, kReported);
      roster_.TakeOffer(node, offer);
    }
    generation_.Begin(MakeAssignment({++number_, 7}, offers, 0));
    separations_.Forget();
  }
  std::string Settle(size_t least, TimePoint now) {
    const auto apart = separations_.Settle(generation_, least, &roster_, &effects_, now);
    return apart ? Describe(*apart) : "";
  }
  /// Returns the text of the only Waiting sent to the node.
  std::string SentTo(const std::string& node) {
    std::string text;
    for (const Effect& effect : effects_.Take()) {
      const auto* send = std::get_if<Send>(&effect);
      if (send != nullptr && send->node_id == node) text = std::get<Waiting>(send->event).text;
    }
    return text;
  }

  JobSettings settings_;
  uint64_t number_ = 0;
  Roster roster_{settings_};
  GenerationRecord generation_;
  EffectList effects_;
  Separations separations_;
};

TEST_F(SeparationsTest, HigherRankOfAPairIsKeptOutAfterGathering) {
  separations_.OnUnreached("c", 2, generation_, kReported);  // rank 2 is b's
  EXPECT_EQ(Settle(1, kReported), "");
  EXPECT_EQ(separations_.NextDeadline(), kReported + Separations::kGather);
  EXPECT_THAT(Settle(1, kReported + Separations::kGather),
              AllOf(HasSubstr("the workers of b and c do not reach each other"),
                    HasSubstr("; the job continues without c")));
  EXPECT_TRUE(roster_.Find("c")->kept_out);
  EXPECT_FALSE(roster_.Find("c")->ready());
  EXPECT_FALSE(roster_.Find("b")->kept_out);
  EXPECT_THAT(SentTo("c"), AllOf(HasSubstr("spare: the workers of b and c"), HasSubstr("1 min 00 s")));
}

TEST_F(SeparationsTest, NodeInSeveralPairsIsKeptOutInsteadOfTheOthers) {
  for (const char* const other : {"b", "c", "d"}) separations_.OnUnreached(other, 1, generation_, kReported);
  EXPECT_THAT(Settle(1, kReported + seconds(1)), HasSubstr("; the job continues without a"));
  EXPECT_TRUE(roster_.Find("a")->kept_out);
  EXPECT_FALSE(roster_.Find("d")->kept_out);
}

TEST_F(SeparationsTest, AllNodesAreNotifiedIfTooFewWouldRemain) {
  separations_.OnUnreached("c", 2, generation_, kReported);
  EXPECT_EQ(Settle(4, kReported + seconds(1)), "");
  EXPECT_FALSE(roster_.Find("c")->kept_out);
  EXPECT_THAT(SentTo("a"), AllOf(HasSubstr("the workers of b and c do not reach each other"),
                                 HasSubstr("too few nodes would be left")));
  separations_.OnUnreached("c", 3, generation_, kReported + seconds(2));
  EXPECT_EQ(Settle(4, kReported + seconds(3)), "");
  EXPECT_THAT(effects_.Take(), IsEmpty()) << "said once";
}

TEST_F(SeparationsTest, NodeIsRetriedWithGrowingPausesUntilItTakesAStep) {
  TimePoint now = kReported;
  for (const Duration pause : {minutes(1), minutes(2), minutes(4)}) {
    separations_.OnUnreached("c", 2, generation_, now);
    now += seconds(1);
    EXPECT_NE(Settle(1, now), "");
    EXPECT_EQ(separations_.NextDeadline(), now + pause);
    generation_.Stop();
    Settle(1, now + pause - seconds(1));
    EXPECT_TRUE(roster_.Find("c")->kept_out);
    now += pause;
    Settle(1, now);
    EXPECT_FALSE(roster_.Find("c")->kept_out);
    EXPECT_EQ(separations_.NextDeadline(), std::nullopt);
    Begin({"a", "b", "c", "d"});
  }
  separations_.OnStep(generation_);
  EXPECT_EQ(separations_.Describe(now), "");
}

TEST_F(SeparationsTest, NodeIsAdmittedOnceItsPeerIsGone) {
  separations_.OnUnreached("c", 2, generation_, kReported);
  Settle(1, kReported + seconds(1));
  generation_.Stop();
  roster_.Erase("b");
  Settle(1, kReported + seconds(2));
  EXPECT_FALSE(roster_.Find("c")->kept_out);
}

TEST_F(SeparationsTest, ReturningNodeIsKeptOut) {
  separations_.OnUnreached("c", 2, generation_, kReported);
  Settle(1, kReported + seconds(1));
  generation_.Stop();
  roster_.Erase("c");
  roster_.Open("c", kReported + seconds(2));
  Settle(1, kReported + seconds(2));
  EXPECT_TRUE(roster_.Find("c")->kept_out);
}

TEST_F(SeparationsTest, ReportsThatNameNoOtherMemberAreIgnored) {
  separations_.OnUnreached("c", 5, generation_, kReported);   // its own rank
  separations_.OnUnreached("c", 99, generation_, kReported);  // not a rank of any member
  separations_.OnUnreached("x", 0, generation_, kReported);
  EXPECT_EQ(separations_, Separations());
  generation_.Stop();
  separations_.OnUnreached("c", 2, generation_, kReported);
  EXPECT_EQ(separations_, Separations());
}

TEST_F(SeparationsTest, ReportsAreDroppedWhenTheGenerationEnds) {
  separations_.OnUnreached("c", 2, generation_, kReported);
  generation_.Stop();
  EXPECT_EQ(Settle(1, kReported + seconds(1)), "");
  EXPECT_EQ(separations_, Separations());
}

}  // namespace
}  // namespace mtrun::rendezvous
