#include "rendezvous/session/retry_schedule.h"

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RetrySchedule, PausesDoubleUpToHalfASecond) {
  RetrySchedule schedule(seconds(5), Duration::zero());
  TimePoint now;
  schedule.BeginAway(now);
  EXPECT_TRUE(schedule.AttemptDue(now));
  for (const int pause : {50, 100, 200, 400, 500, 500}) {
    schedule.AttemptFailed(now);
    EXPECT_FALSE(schedule.AttemptDue(now + milliseconds(pause - 1)));
    EXPECT_EQ(schedule.NextDeadline(false), std::min(now + milliseconds(pause), TimePoint(seconds(5))));
    now += milliseconds(pause);
    EXPECT_TRUE(schedule.AttemptDue(now));
  }
  schedule.Connected();
  schedule.AttemptFailed(now);
  EXPECT_TRUE(schedule.AttemptDue(now + milliseconds(50)));
}

TEST(RetrySchedule, TimeoutGrowsAfterEachRoundOfSilence) {
  RetrySchedule schedule(seconds(5), Duration::zero());
  for (const int patience : {1, 1, 2, 2, 4, 4, 4, 4}) {
    EXPECT_EQ(schedule.Timeout(false, 2, milliseconds(1500)), seconds(patience));
    schedule.AttemptFailed(TimePoint());  // a refusal comes at once
    schedule.AttemptSilent();
  }
  EXPECT_EQ(schedule.Timeout(true, 2, milliseconds(1500)), milliseconds(1500)) << "a stream that is there";
  EXPECT_EQ(schedule.Timeout(false, 1, milliseconds(1500)), seconds(6)) << "there is no other service";
  schedule.Connected();
  EXPECT_EQ(schedule.Timeout(false, 2, milliseconds(1500)), seconds(1));
}

TEST(RetrySchedule, AttemptsOfManyNodesAreSpread) {
  RetrySchedule schedule(seconds(5), Duration::zero(), 10'001);
  schedule.Begin(TimePoint(), 0);
  EXPECT_TRUE(schedule.AttemptDue(TimePoint()));
  for (uint64_t random = 1; random < 100; ++random) {
    schedule.Begin(TimePoint(), random * 0x9e3779b97f4a7c15);
    EXPECT_FALSE(schedule.AttemptDue(TimePoint()));
    EXPECT_TRUE(schedule.AttemptDue(TimePoint(seconds(1))));
  }
  EXPECT_EQ(schedule.Timeout(false, 2, milliseconds(1500)), seconds(21));
  EXPECT_EQ(schedule.Timeout(false, 1, milliseconds(1500)), seconds(26));
  EXPECT_EQ(schedule.Timeout(true, 2, milliseconds(1500)), milliseconds(1500)) << "it had its turn";
  schedule.BeginAway(TimePoint());
  EXPECT_TRUE(schedule.AttemptDue(TimePoint())) << "who was connected comes back at once";
}

TEST(RetrySchedule, ReportsOncePerInterval) {
  RetrySchedule schedule(seconds(5), Duration::zero());
  schedule.BeginAway(TimePoint());
  EXPECT_FALSE(schedule.TakeReport(TimePoint(milliseconds(4999))));
  EXPECT_TRUE(schedule.TakeReport(TimePoint(seconds(5))));
  EXPECT_FALSE(schedule.TakeReport(TimePoint(seconds(9))));
  EXPECT_EQ(schedule.NextDeadline(true), TimePoint(seconds(10)));
}

TEST(RetrySchedule, GivesUpOnlyIfRequested) {
  RetrySchedule patient(seconds(5), Duration::zero()), hasty(seconds(5), seconds(2));
  patient.BeginAway(TimePoint());
  hasty.BeginAway(TimePoint());
  EXPECT_FALSE(patient.GiveUpDue(TimePoint(std::chrono::hours(1000))));
  EXPECT_FALSE(hasty.GiveUpDue(TimePoint(milliseconds(1999))));
  EXPECT_TRUE(hasty.GiveUpDue(TimePoint(seconds(2))));
  EXPECT_EQ(hasty.NextDeadline(true), TimePoint(seconds(2)));
}

}  // namespace
}  // namespace mtrun::rendezvous
