// How workers start, and which processes remain of them.
#include "tests/e2e/either.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// ---- shared with torchrun ----

class Leaving : public EitherTest {};
MT_UNDER_EITHER(Leaving);

TEST_P(Leaving, ChildrenOfASuccessfulWorkerFinish) {
  const std::string done = folder_.File("uploaded");
  const std::string script =
      Script("run.sh", absl::StrCat("[ $RANK = 1 ] || exit 0\nsetsid sh -c 'sleep 1; echo late; echo yes > ",
                                    done, "' &\n(sleep 1; echo yes > ", done, "2) &\nexit 0\n"));
  const auto run = Start({"--standalone", "--nproc_per_node=2", "--no_python", script});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_EQ(support::ReadText(done), "yes\n");
  EXPECT_EQ(support::ReadText(done + "2"), "yes\n");
}

// ---- mtrun's own ----

class TorchrunWorkers : public LauncherTest {};

TEST_F(TorchrunWorkers, ChildrenOfAFailedWorkerEndWithIt) {
  Program mtrun(Command({"--standalone", Script("run.sh", "setsid sleep 1000 &\nexit 3\n")}), Environment());
  EXPECT_EQ(mtrun.Wait(), 3) << mtrun.Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(TorchrunWorkers, RestartIsForkedFromTheWarmInterpreter) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  support::WriteText(folder_.File("slow.py"), "import os, time\ntime.sleep(0.5)\npid = os.getpid()\n");
  support::WriteText(folder_.File("train.py"),
                     "import os, sys, time\n"
                     "began = time.monotonic()\n"
                     "import slow\n"
                     "attempt = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
                     "print('attempt', attempt, 'warm', slow.pid != os.getpid(),\n"
                     "      'at once', time.monotonic() - began < 0.4, flush=True)\n"
                     "time.sleep(3 if attempt == '0' else 0)\n"
                     "sys.exit(attempt == '0')\n");
  support::Overlay overlay = Environment();
  overlay["PYTHONPATH"] = folder_.path();
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--max_restarts=1", "--warm_python",
                         "--preload=slow", folder_.File("train.py")}),
                overlay);
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "attempt 0 warm False"), SizeIs(2)) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "attempt 1 warm True at once True"), SizeIs(2)) << mtrun.Text();
}

TEST_F(TorchrunWorkers, FailedImportInTheWarmInterpreterIsReportedAndHarmless) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  // It trains until the other interpreter has printed it.
  support::WriteText(folder_.File("train.py"),
                     absl::StrCat("import os, time\nwhile not os.path.exists('", folder_.File("go"),
                                  "'):\n  time.sleep(0.02)\nprint('trained')\n"));
  Program mtrun(
      Command({"--standalone", "--warm_python", "--preload=no_such_module", folder_.File("train.py")}),
      Environment());
  EXPECT_TRUE(mtrun.WaitForLine("No module named 'no_such_module'")) << mtrun.Text();
  support::WriteText(folder_.File("go"), "");
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("trained"));
}

}  // namespace
}  // namespace mtrun::e2e
