#include "launcher/core/hang_watch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Scope = HangWatch::Scope;
using std::chrono::seconds;

TimePoint AtSecond(int second) { return TimePoint(seconds(second)); }

/// Local rank 0 is a cooperative member with rank 4, 1 a fresh worker.
WorkerSlots MemberAndFresh() {
  WorkerSlots slots("node1", true);
  slots.Reset(2);
  for (int i = 0; i < 2; ++i) slots.Start(i, true);
  slots[0].said_hello = slots[0].cooperative = true;
  slots[0].rank = 4;
  return slots;
}

TEST(HangWatchTest, ReportsOnceAndThenKills) {
  const WorkerSlots slots = MemberAndFresh();
  HangWatch watch(seconds(2), seconds(5), 2);
  watch.SetStep(0, 12);
  watch.OnProgress(1, AtSecond(4));
  EXPECT_EQ(watch.NextLook(slots, Scope::kAll), AtSecond(2));
  EXPECT_THAT(watch.Look(slots, Scope::kAll, AtSecond(1)), IsEmpty());
  const HangWatch::Hang reported{.local_rank = 0, .stalled = seconds(2), .step = 12};
  EXPECT_THAT(watch.Look(slots, Scope::kAll, AtSecond(2)), ElementsAre(reported));
  EXPECT_THAT(watch.Look(slots, Scope::kAll, AtSecond(3)), IsEmpty());
  EXPECT_THAT(watch.Reported(slots, Scope::kAll), ElementsAre(reported));
  EXPECT_EQ(watch.NextLook(slots, Scope::kAll), AtSecond(5));
  EXPECT_EQ(watch.KilledAfter(0), std::nullopt);
  EXPECT_THAT(watch.Look(slots, Scope::kAll, AtSecond(5)),
              ElementsAre(HangWatch::Hang{.local_rank = 0, .stalled = seconds(5), .step = 12, .kill = true}));
  EXPECT_EQ(watch.KilledAfter(0), seconds(5));
  EXPECT_THAT(watch.Reported(slots, Scope::kAll), IsEmpty()) << "it is being killed";
  watch.Restart(0, AtSecond(6));
  EXPECT_EQ(watch.KilledAfter(0), std::nullopt);
}

TEST(HangWatchTest, ProgressEndsAReportedHang) {
  const WorkerSlots slots = MemberAndFresh();
  HangWatch watch(seconds(2), Duration::zero(), 2);
  EXPECT_EQ(watch.OnProgress(0, AtSecond(1)), std::nullopt);
  EXPECT_EQ(watch.Look(slots, Scope::kAll, AtSecond(3)).size(), 2u);
  EXPECT_EQ(watch.OnProgress(0, AtSecond(4)), seconds(3));
  EXPECT_EQ(watch.OnProgress(0, AtSecond(5)), std::nullopt);
  EXPECT_EQ(watch.NextLook(slots, Scope::kAll), AtSecond(7));
}

TEST(HangWatchTest, ScopeSelectsTheWatchedWorkers) {
  WorkerSlots slots = MemberAndFresh();
  HangWatch watch(seconds(2), Duration::zero(), 2);
  EXPECT_EQ(watch.NextLook(slots, Scope::kNobody), std::nullopt);
  const std::vector<HangWatch::Hang> fresh = watch.Look(slots, Scope::kFresh, AtSecond(9));
  EXPECT_THAT(fresh, ElementsAre(HangWatch::Hang{.local_rank = 1, .stalled = seconds(9)}));
  slots[1].warm = true;
  slots[0].said_done = true;
  EXPECT_THAT(watch.Reported(slots, Scope::kAll), IsEmpty());
  slots[0].said_done = false;
  slots[0].cooperative = false;
  EXPECT_THAT(watch.Look(slots, Scope::kAll, AtSecond(9)), IsEmpty()) << "an ordinary program says nothing";
}

TEST(HangWatchTest, ZeroMeansNever) {
  const WorkerSlots slots = MemberAndFresh();
  HangWatch watch(Duration::zero(), Duration::zero(), 2);
  EXPECT_EQ(watch.NextLook(slots, Scope::kAll), std::nullopt);
  EXPECT_THAT(watch.Look(slots, Scope::kAll, AtSecond(1000000)), IsEmpty());
}

TEST(HangWatchTest, Text) {
  const HangWatch::Hang hang{.local_rank = 0, .stalled = seconds(30), .step = 12};
  EXPECT_EQ(Describe(hang, "rank 4 (local 0) on node1"),
            "rank 4 (local 0) on node1: no progress for 30.0 s since step 12");
  EXPECT_EQ(Describe(HangWatch::Hang{.stalled = seconds(5), .kill = true}, "local rank 1"),
            "local rank 1: no progress for 5.0 s (--hang_timeout): killing it");
  HangWatch watch(seconds(2), Duration::zero(), 2);
  watch.SetStep(1, 3);
  watch.Look(MemberAndFresh(), Scope::kFresh, AtSecond(9));
  EXPECT_EQ(watch.Describe(), "0 at step 0, 1 at step 3 stalled");
}

}  // namespace
}  // namespace mtrun::launcher
