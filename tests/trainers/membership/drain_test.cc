#include "trainers/membership/drain.h"

#include <time.h>
#include <unistd.h>

#include <csignal>

#include "gtest/gtest.h"

namespace mtrun::trainers {
namespace {

/// As its exit status says.
int HeardOf(std::initializer_list<int> signals) {
  CatchDrainSignals();
  for (const int signal : signals) raise(signal);
  return DrainSignal();
}

TEST(DrainSignalsDeathTest, OneThatComesTwiceAtOnceIsOne) {
  EXPECT_EXIT(_exit(HeardOf({})), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(_exit(HeardOf({SIGUSR1, SIGUSR1, SIGUSR1})), testing::ExitedWithCode(SIGUSR1), "");
  EXPECT_EXIT(_exit(HeardOf({SIGUSR1, SIGTERM, SIGTERM})), testing::ExitedWithCode(SIGTERM), "");
}

TEST(DrainSignalsDeathTest, OneThatComesAgainKills) {
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
