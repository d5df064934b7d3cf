#include "base/signal_name.h"

#include <csignal>

#include "gtest/gtest.h"

namespace mtrun {
namespace {

TEST(SignalNameTest, NamesSignalsAndNumbersTheRest) {
  EXPECT_EQ(SignalName(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalName(SIGUSR1), "SIGUSR1");
  EXPECT_EQ(SignalName(0), "signal 0");
  EXPECT_EQ(SignalName(-3), "signal -3");
}

}  // namespace
}  // namespace mtrun
