// Many workers at once, and many in succession: no process may remain.
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

/// The usual limit of open files; workers get the same limit as without mtrun.
TEST_F(LauncherTest, ManyWorkersStartUnderALowFileLimit) {
  const std::string script = Script("run.sh", "echo up with $(ulimit -n)\n");
  const std::string few = "ulimit -Sn 1024 && exec \"$0\" \"$@\"";
  Program mtrun(Words({"/bin/sh", "-c", few}, Command({"--standalone", "--nproc_per_node=256", script})),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_TRUE(mtrun.WaitForLines("up with 1024", 256)) << mtrun.Text();
}

TEST_F(LauncherTest, OneHundredRestartsLeaveNoProcess) {
  RestartAndLook(Mtrun(), Environment(), 100, folder_);
}

}  // namespace
}  // namespace mtrun::e2e
