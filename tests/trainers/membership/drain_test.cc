#include "trainers/membership/drain.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "gtest/gtest.h"

namespace mtrun::trainers {
namespace {

/// Raises `signals` and returns the drain signal that was caught, for use as an exit status.
int HeardOf(std::initializer_list<int> signals) {
  CatchDrainSignals();
  for (const int signal : signals) raise(signal);
  return DrainSignal();
}

TEST(DrainSignalsDeathTest, ImmediateRepeatCountsAsOneSignal) {
  EXPECT_EXIT(_exit(HeardOf({})), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(_exit(HeardOf({SIGUSR1, SIGUSR1, SIGUSR1})), testing::ExitedWithCode(SIGUSR1), "");
  EXPECT_EXIT(_exit(HeardOf({SIGUSR1, SIGTERM, SIGTERM})), testing::ExitedWithCode(SIGTERM), "");
}

TEST(DrainSignalsDeathTest, FirstSignalSetsTheDrainTime) {
  const auto since = [] {
    CatchDrainSignals();
    if (DrainSignalAt()) _exit(1);
    const auto told = [](int signal) {
      const TimePoint before = MonotonicNow();
      raise(signal);
      return std::pair(before, DrainSignalAt());
    };
    const auto [before, first] = told(SIGUSR1);
    const Duration off = first ? *first - before : Duration::max();
    if (off < -std::chrono::milliseconds(1) || off > std::chrono::seconds(60)) _exit(2);
    const timespec a_while = {0, 20'000'000};
    nanosleep(&a_while, nullptr);
    _exit(told(SIGTERM).second == first ? 0 : 3);
  };
  EXPECT_EXIT(since(), testing::ExitedWithCode(0), "");
}

TEST(DrainSignalsDeathTest, LaterRepeatKills) {
  const auto again = [] {
    HeardOf({SIGTERM});
    const timespec echo = {kSignalEchoMs / 1000, kSignalEchoMs % 1000 * 1'000'000};
    nanosleep(&echo, nullptr);
    raise(SIGTERM);
    _exit(0);
  };
  EXPECT_EXIT(again(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace mtrun::trainers
