// Many workers at once, many one after the other: nothing may remain.
#include <signal.h>

#include "tests/e2e/restart_often.h"

namespace mtrun::e2e {
namespace {

TEST_F(LauncherTest, SixtyFourWorkersStartAndStopCleanly) {
  const std::string script = Script("run.sh", "echo up $RANK of $WORLD_SIZE\nexec sleep 1000\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node=64", script}), Environment());
  ASSERT_TRUE(mtrun.WaitForLines(" of 64", 64)) << mtrun.Text();
  mtrun.Signal(SIGTERM);
  EXPECT_EQ(mtrun.Wait(kSoon), 128 + SIGTERM) << mtrun.Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(LauncherTest, AHundredRestartsLeaveNothingBehind) {
  RestartAndLook(Mtrun(), Environment(), 100, folder_);
}

}  // namespace
}  // namespace mtrun::e2e
