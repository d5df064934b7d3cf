#include "launcher/cli/signals.h"

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SignalsTest, AcceptsNamesAndNumbersInAnyCase) {
  std::vector<std::string> unknown;
  EXPECT_THAT(ParseSignals("SIGTERM,usr1, 1 ,Int", &unknown), ElementsAre(SIGHUP, SIGINT, SIGUSR1, SIGTERM));
  EXPECT_THAT(ParseSignals("TERM,TERM", &unknown), ElementsAre(SIGTERM));
  EXPECT_THAT(ParseSignals("", &unknown), IsEmpty());
  EXPECT_THAT(unknown, IsEmpty());
}

TEST(SignalsTest, ErrorNamesASignalThatCannotBeHandled) {
  std::vector<std::string> unknown;
  EXPECT_THAT(ParseSignals("SIGKILL,SIGFOO,99,SIGSTOP,SIGCHLD,SIGUSR2", &unknown), ElementsAre(SIGUSR2));
  EXPECT_THAT(unknown, ElementsAre("SIGKILL", "SIGFOO", "99", "SIGSTOP", "SIGCHLD"));
}

}  // namespace
}  // namespace mtrun::launcher
