#include "trainers/membership/lease_hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Action = LeaseHold::Action;

const LeaseHold::Decision kCommits = {}, kHolds = {.action = Action::kHold};
const absl::Status kBroken = absl::AbortedError("lost rank 1");

TimePoint At(double second) { return TimePoint(FromSeconds(second)); }

TEST(LeaseHold, CommitsWhileTheLeaseIsValid) {
  LeaseHold hold(seconds(15));
  EXPECT_EQ(hold.Next("step 7", {}, At(1)), kCommits);
  EXPECT_EQ(hold.Next("step 7", {.leaves = true}, At(100)), kCommits);
  EXPECT_EQ(hold.Next("step 8", {.membership = kBroken, .leaves = true}, At(200)), kCommits)
      << "a step whose sums are whole, as ever";
  EXPECT_FALSE(hold.holds());
}

TEST(LeaseHold, HoldsUntilTheLeaseIsRenewedAndReportsBothOnce) {
  LeaseHold hold(seconds(15));
  EXPECT_EQ(hold.Next("step 7", {.over = true}, At(1)),
            (LeaseHold::Decision{.action = Action::kHold,
                                 .news = "no rendezvous service has answered within fence_timeout; holding "
                                         "at step 7 until one does"}));
  EXPECT_TRUE(hold.holds());
  EXPECT_EQ(hold.Next("step 7", {.over = true}, At(2)), kHolds);
  EXPECT_EQ(hold.Next("step 7", {.over = true}, At(3600)), kHolds) << "for ever";
  EXPECT_EQ(hold.Next("step 7", {}, At(3601.5)),
            (LeaseHold::Decision{
                .news = "a rendezvous service answers again: the run continues after 1 h 00 min"}));
  EXPECT_FALSE(hold.holds());
  EXPECT_EQ(hold.Next("step 8", {}, At(3602)), kCommits);
  EXPECT_THAT(hold.Next("step 9", {.over = true}, At(3700)).news, HasSubstr("step 9")) << "once a hold";
}

TEST(LeaseHold, GivesUpWhenTheMembershipEnds) {
  LeaseHold hold(seconds(15));
  EXPECT_EQ(hold.Next("step 7", {.over = true}, At(1)).action, Action::kHold);
  const LeaseHold::Decision given_up = hold.Next("step 7", {.over = true, .membership = kBroken}, At(2));
  EXPECT_EQ(given_up, (LeaseHold::Decision{.action = Action::kGiveUp, .why = kBroken}));
  EXPECT_FALSE(hold.holds());
  EXPECT_EQ(hold.Next("step 7", {}, At(3)), kCommits) << "in the next generation";
}

TEST(LeaseHold, ServiceThatReportsTheGenerationsEndPreventsTheCommit) {
  LeaseHold hold(seconds(15));
  EXPECT_EQ(hold.Next("step 7", {.over = true}, At(1)).action, Action::kHold);
  EXPECT_EQ(hold.Next("step 7", {.over = false, .membership = kBroken}, At(2)).action, Action::kGiveUp);
}

TEST(LeaseHold, DoesNotHoldIfTheMembershipHasAlreadyEnded) {
  LeaseHold hold(seconds(15));
  EXPECT_EQ(hold.Next("step 7", {.over = true, .membership = kBroken}, At(1)).action, Action::kGiveUp);
}

TEST(LeaseHold, DrainingWorkerHoldsUntilItsTimeout) {
  LeaseHold hold(seconds(15));
  EXPECT_EQ(hold.Next("step 7", {.leaves = true}, At(1)), kCommits) << "told here";
  EXPECT_EQ(hold.Next("step 8", {.over = true, .leaves = true}, At(10)).action, Action::kHold);
  EXPECT_EQ(hold.Next("step 8", {.over = true, .leaves = true}, At(16) - milliseconds(1)), kHolds);
  const LeaseHold::Decision given_up = hold.Next("step 8", {.over = true, .leaves = true}, At(16));
  EXPECT_EQ(given_up.action, Action::kGiveUp);
  EXPECT_EQ(given_up.why.code(), absl::StatusCode::kUnavailable) << "aborted like any step";
  EXPECT_THAT(std::string(given_up.why.message()), HasSubstr("fence_timeout, and this worker has to leave"));
  EXPECT_EQ(hold.Next("the last checkpoint", {.over = true, .leaves = true}, At(17)).action, Action::kGiveUp)
      << "there is no second patience";
}

TEST(LeaseHold, ServiceThatReturnsInTimeLetsItFinish) {
  LeaseHold hold(seconds(15));
  EXPECT_EQ(hold.Next("step 7", {.over = true, .leaves = true}, At(1)).action, Action::kHold);
  EXPECT_EQ(hold.Next("step 7", {.over = false, .leaves = true}, At(14)).action, Action::kCommit);
  EXPECT_EQ(hold.Next("step 8", {.over = false, .leaves = true}, At(40)), kCommits);
}

}  // namespace
}  // namespace mtrun::trainers
