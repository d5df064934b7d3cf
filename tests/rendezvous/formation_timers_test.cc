#include "rendezvous/job/formation_timers.h"

#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::seconds;

JobSettings TimerSettings() {
  JobSettings settings;
  settings.min_nodes = 2;
  settings.max_nodes = 3;
  settings.join_timeout = seconds(10);
  settings.min_nodes_timeout = seconds(5);
  return settings;
}

constexpr TimePoint At(int second) { return TimePoint() + seconds(second); }

TEST(FormationTimers, JoinTimeoutStartsAtTheFirstOffer) {
  FormationTimers timers(TimerSettings());
  EXPECT_FALSE(timers.JoinTimedOut(At(100)));
  timers.OnOffer(At(1));
  timers.OnOffer(At(5));
  EXPECT_FALSE(timers.JoinTimedOut(At(10)));
  EXPECT_TRUE(timers.JoinTimedOut(At(11)));
  EXPECT_EQ(timers.NextDeadline(/*first=*/true), At(11));
  EXPECT_EQ(timers.NextDeadline(/*first=*/false), std::nullopt);
}

TEST(FormationTimers, LastCallRunsWhileEnoughNodesAreReady) {
  FormationTimers timers(TimerSettings());
  timers.OnReady(1, At(1));
  EXPECT_EQ(timers.last_call_ends(), std::nullopt);
  timers.OnReady(2, At(2));
  timers.OnReady(3, At(3));
  EXPECT_EQ(timers.last_call_ends(), At(3));
  timers.OnReady(1, At(3));
  EXPECT_EQ(timers.last_call_ends(), std::nullopt);
}

TEST(FormationTimers, ColdStartWaitExtendsTheLastCall) {
  JobSettings settings = TimerSettings();
  settings.cold_start_wait = seconds(8);
  FormationTimers timers(settings);
  timers.OnReady(2, At(2));
  EXPECT_EQ(timers.last_call_ends(), At(10));
  settings.last_call = seconds(20);
  FormationTimers longer(settings);
  longer.OnReady(2, At(2));
  EXPECT_EQ(longer.last_call_ends(), At(22));
}

TEST(FormationTimers, HoldTimesOutBelowTheMinimumNumberOfNodes) {
  FormationTimers timers(TimerSettings());
  timers.OnNodes(1, At(0));
  timers.OnNodes(1, At(4));
  EXPECT_FALSE(timers.HoldTimedOut(At(4)));
  EXPECT_TRUE(timers.HoldTimedOut(At(5)));
  timers.OnNodes(2, At(4));
  EXPECT_FALSE(timers.HoldTimedOut(At(5)));
  JobSettings for_ever = TimerSettings();
  for_ever.min_nodes_timeout = Duration::zero();
  FormationTimers patient(for_ever);
  patient.OnNodes(0, At(0));
  EXPECT_FALSE(patient.HoldTimedOut(At(1'000'000)));
}

TEST(FormationTimers, NextDeadlineIsTheEarliest) {
  FormationTimers timers(TimerSettings());
  timers.OnNodes(1, At(0));
  timers.Retry(At(7));
  EXPECT_EQ(timers.NextDeadline(false), At(5));
  timers.Retry(At(3));
  EXPECT_EQ(timers.NextDeadline(false), At(3));
  timers.Stop();
  EXPECT_EQ(timers.NextDeadline(false), std::nullopt);
}

TEST(FormationTimers, IsAValue) {
  FormationTimers a(TimerSettings()), b(TimerSettings());
  EXPECT_EQ(a, b);
  b.OnNodes(1, At(0));
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(false, At(1)), "last call -, form at -, join ends -, hold ends +4.000 s");
}

}  // namespace
}  // namespace mtrun::rendezvous
