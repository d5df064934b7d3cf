#include "rendezvous/job/break_backoff.h"

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Returns the end of the pause after a generation that began and broke at `now`.
Duration PauseAfterBreak(BreakBackoff& backoff, TimePoint now) {
  backoff.OnGeneration(now);
  backoff.OnBreak(now, /*connected=*/true);
  const auto ends = backoff.PauseEnds(now);
  return ends ? *ends - now : Duration::zero();
}

TEST(BreakBackoff, PausesGrowFromTheSecondBreak) {
  BreakBackoff backoff;
  const TimePoint now;
  for (const auto& pause : {milliseconds(0), milliseconds(200), milliseconds(400), milliseconds(800)})
    EXPECT_EQ(PauseAfterBreak(backoff, now), pause);
  EXPECT_EQ(backoff.PauseText(),
            "the last 4 generations broke without a step; a short pause before the next one");
  for (int i = 4; i < BreakBackoff::kMaxBreaks - 1; ++i) {
    PauseAfterBreak(backoff, now);
    EXPECT_FALSE(backoff.exhausted());
  }
  EXPECT_EQ(PauseAfterBreak(backoff, now), BreakBackoff::kMaxPause);
  EXPECT_TRUE(backoff.exhausted());
}

TEST(BreakBackoff, PauseEndsAtItsDeadline) {
  BreakBackoff backoff;
  PauseAfterBreak(backoff, TimePoint());
  PauseAfterBreak(backoff, TimePoint());
  EXPECT_TRUE(backoff.PauseEnds(TimePoint() + milliseconds(199)));
  EXPECT_FALSE(backoff.PauseEnds(TimePoint() + milliseconds(200)));
}

TEST(BreakBackoff, StepLongRunOrDeathResetsTheCount) {
  BreakBackoff stepped, long_run, death;
  for (BreakBackoff* backoff : {&stepped, &long_run, &death}) {
    for (int i = 0; i < 5; ++i) PauseAfterBreak(*backoff, TimePoint());
    backoff->OnGeneration(TimePoint());
  }
  stepped.OnStep();
  EXPECT_TRUE(stepped.stepped());
  stepped.OnBreak(TimePoint(), /*connected=*/true);
  EXPECT_EQ(stepped.breaks(), 1);
  long_run.OnBreak(TimePoint() + BreakBackoff::kLongRun, /*connected=*/true);
  EXPECT_EQ(long_run.breaks(), 1);
  death.OnBreak(TimePoint(), /*connected=*/true);
  EXPECT_EQ(death.breaks(), 6);
  death.Clear();
  EXPECT_EQ(death.breaks(), 0);
  EXPECT_FALSE(death.PauseEnds(TimePoint()));
}

/// Workers separated by a firewall try until their timeout, which is ten minutes in Python.
TEST(BreakBackoff, FailedConnectionAttemptIsNotALongRun) {
  BreakBackoff backoff;
  TimePoint now;
  for (int i = 1; i <= BreakBackoff::kMaxBreaks; ++i) {
    backoff.OnGeneration(now);
    now += seconds(601);
    backoff.OnBreak(now, /*connected=*/false);
    EXPECT_EQ(backoff.breaks(), i);
  }
  EXPECT_TRUE(backoff.exhausted());
}

TEST(BreakBackoff, IsAValue) {
  BreakBackoff a, b;
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.Describe(TimePoint()), "");
  PauseAfterBreak(b, TimePoint() + seconds(1));
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(TimePoint()), "breaks 1, began +1.000 s, pause ends +1.000 s");
}

}  // namespace
}  // namespace mtrun::rendezvous
