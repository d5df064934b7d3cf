#include "rendezvous/job/failure_streak.h"

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/error_text.h"

namespace mtrun::rendezvous {
namespace {

using std::chrono::milliseconds;

WorkerFailure Raised(const std::string& message, int exit_code = 1) {
  WorkerFailure failure;
  failure.exit_code = exit_code;
  failure.message = message;
  return failure;
}

Duration PauseAt(const FailureStreak& streak, TimePoint now) {
  const auto ends = streak.PauseEnds(now);
  return ends ? *ends - now : Duration::zero();
}

TEST(FailureStreak, PausesGrowWithoutProgress) {
  FailureStreak streak;
  const TimePoint now;
  for (const int pause : {0, 200, 400, 800, 1600, 3200, 6400, 10'000, 10'000}) {
    streak.OnFailure(Raised("OSError: not mounted"), /*progressed=*/false, now);
    EXPECT_EQ(PauseAt(streak, now), milliseconds(pause));
  }
  EXPECT_EQ(streak.PauseText(), "workers failed 9 times in a row; a short pause before the next restart");
  EXPECT_FALSE(streak.PauseEnds(now + milliseconds(10'000)));
  streak.OnFailure(Raised("OSError: not mounted"), /*progressed=*/true, now);
  EXPECT_EQ(PauseAt(streak, now), milliseconds(0));
}

/// A worker that an operator or the kernel kills is started again at once.
TEST(FailureStreak, KilledWorkersWaitForNothing) {
  FailureStreak streak;
  WorkerFailure killed;
  killed.signal = SIGKILL;
  for (int i = 0; i < 5; ++i) streak.OnFailure(killed, /*progressed=*/false, TimePoint());
  EXPECT_FALSE(streak.PauseEnds(TimePoint()));
  EXPECT_EQ(streak.Summary(5), "all 5 failures were the same");
}

TEST(FailureStreak, ThirdEqualFailureIsNamedOnce) {
  FailureStreak streak;
  for (int i = 1; i <= 5; ++i) {
    streak.OnFailure(Raised(absl::StrCat(kTailHeading, "\nTraceback ...\nValueError: rank ", i, " of 8")),
                     /*progressed=*/false, TimePoint());
    WorkerDied died;
    streak.Name(&died);
    EXPECT_THAT(
        Describe(Cause{"node1", "node1", died}),
        testing::EndsWith(i == 3 ? "restart 0 of 0; the last 3 failures are the same: ValueError: rank 3 of "
                                   "8; if restarts cannot help, stop the job with Ctrl-C or mtrun --stop"
                                 : "restart 0 of 0"));
  }
  EXPECT_EQ(streak.Summary(5), "all 5 failures were the same");
  EXPECT_EQ(streak.Summary(6), "the last 5 failures were the same");
}

TEST(FailureStreak, OtherErrorsAndProgressBeginAnew) {
  FailureStreak streak;
  const auto fail = [&](const std::string& message, int exit_code, bool progressed) {
    streak.OnFailure(Raised(message, exit_code), progressed, TimePoint());
    return streak.Summary(3);
  };
  fail("a", 1, false);
  fail("a", 1, false);
  EXPECT_EQ(fail("b", 1, false), "");
  EXPECT_EQ(fail("b", 2, false), "");
  EXPECT_EQ(fail("b", 2, false), "");
  EXPECT_EQ(fail("b", 2, true), "");
  EXPECT_EQ(fail("b", 2, false), "");
  EXPECT_EQ(fail("b", 2, false), "all 3 failures were the same");
}

TEST(FailureStreak, IsAValue) {
  FailureStreak a, b;
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.Describe(TimePoint()), "");
  b.OnFailure(Raised(""), false, TimePoint());
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(TimePoint()), "failures 1, equal 1, pause ends +0.000 s");
}

}  // namespace
}  // namespace mtrun::rendezvous
