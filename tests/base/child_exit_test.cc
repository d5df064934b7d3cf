#include "base/child_exit.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mtrun {
namespace {

TEST(ChildExit, RunningChildExhaustsThePatience) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_FALSE(AwaitExit(child, std::chrono::milliseconds(20)));
  kill(child, SIGKILL);
  EXPECT_TRUE(AwaitExit(child, std::chrono::seconds(60)));
  EXPECT_EQ(waitpid(child, nullptr, 0), child) << "it is left to be reaped";
  EXPECT_TRUE(AwaitExit(child, std::chrono::seconds(60))) << "another thread has reaped it";
}

}  // namespace
}  // namespace mtrun
