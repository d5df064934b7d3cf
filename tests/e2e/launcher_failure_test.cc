// Deaths and stops of mtrun's workers, agents and front: output, remaining processes, exit status.
#include <signal.h>
#include <unistd.h>

#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Returns the pid that a worker printed as "pid N".
pid_t PidIn(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line.substr(line.find("pid ")), ' ');
  return static_cast<pid_t>(std::stoi(words.at(1)));
}

TEST_F(LauncherTest, ExitCodeOfAFailingWorkerIsReturned) {
  const std::string script =
      Script("run.sh", "if [ $RANK = 1 ]; then echo the cause >&2; exit 3; fi; sleep 1000\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node", "3", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 3) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(),
              AllOf(HasSubstr("run.sh FAILED"), HasSubstr("exitcode  : 3 "), HasSubstr("1 (local_rank: 1)"),
                    HasSubstr("Stopped by mtrun after that: ranks 0, 2 of this node"),
                    HasSubstr("| the cause"), HasSubstr(HostName()), HasSubstr("stderr.log")));
}

TEST_F(LauncherTest, ErrorFileIsShown) {
  const std::string script = Script(
      "run.sh",
      R"(echo '{"message":{"message":"ValueError: from the file","extraInfo":{"timestamp":"1"}}}' > $TORCHELASTIC_ERROR_FILE; exit 1)");
  Program mtrun(Command({"--standalone", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 1);
  EXPECT_THAT(mtrun.Text(), HasSubstr("traceback : ValueError: from the file"));
}

TEST_F(LauncherTest, WorkersThatFailAlikeAreReportedOnceInAFewLines) {
  // All record the same error with a traceback of 300 lines, and then end together.
  const std::string script = Script("run.sh", R"(
frames=$(for i in $(seq 300); do printf 'frame %d\\n' $i; done)
printf '{"message":{"message":"ValueError: no layer %d","extraInfo":{"py_callstack":"%s","timestamp":"1"}}}' \
  $RANK "$frames" > $TORCHELASTIC_ERROR_FILE
trap '' TERM
touch $0.up$RANK
while [ $(ls $0.up* | wc -l) -lt 8 ]; do sleep 0.02; done
exit 1
)");
  Program mtrun(Command({"--standalone", "--nproc_per_node", "8", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 1) << mtrun.Text();
  EXPECT_THAT(From(mtrun.ErrLines(), "ValueError: no layer"), testing::SizeIs(1)) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(),
              AllOf(HasSubstr("alike     : ranks "), HasSubstr("| frame 300\n"), HasSubstr("more lines in "),
                    HasSubstr("/error.json)"), HasSubstr("<NO_OTHER_FAILURES>")));
}

TEST_F(LauncherTest, EqualFailuresAreNamedOnceAndAtTheEnd) {
  const std::string script =
      Script("run.sh", "echo run $TORCHELASTIC_RESTART_COUNT; echo 'KeyError: 1' >&2; exit 3\n");
  Program mtrun(Command({"--standalone", "--max_restarts", "4", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 3) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "run"), testing::SizeIs(5)) << "the budget is torchrun's";
  EXPECT_THAT(From(mtrun.ErrLines(), "the last 3 failures are the same: KeyError: 1"), testing::SizeIs(1))
      << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("the budget of 4 restarts is used up; all 5 failures were the same"));
}

/// Rank 1 raises and exits slowly; its open connections are closed before, and its peers exit sooner.
TEST_F(LauncherTest, RootCauseIsTheErrorThatOthersFollowed) {
  if (!HavePython()) GTEST_SKIP() << "no python3 here";
  support::WriteText(folder_.File("chain.py"), R"(
import atexit, os, socket, time
rank, path = int(os.environ["RANK"]), os.path.join(os.path.dirname(__file__), "socket")
if rank == 1:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    os.rename(path, path + ".up")
    peers = [listener.accept()[0] for _ in range(3)]
    # The launcher takes the time at which it reads a traceback, and other processes may keep it from reading at once.
    atexit.register(lambda: (time.sleep(0.3), [peer.close() for peer in peers], time.sleep(0.3)))
    raise ValueError("no such layer: conv9")
while not os.path.exists(path + ".up"):
    time.sleep(0.01)
peer = socket.socket(socket.AF_UNIX)
peer.connect(path + ".up")
if not peer.recv(1):
    raise ConnectionError(f"rank {rank}: closed by its peer")
)");
  Program mtrun(
      Command({"--standalone", "--nproc_per_node", "4", "--no_python", "python3", folder_.File("chain.py")}),
      Environment());
  EXPECT_EQ(mtrun.Wait(), 1) << mtrun.Text();
  const std::string box = mtrun.Text().substr(mtrun.Text().find("Root Cause"));
  EXPECT_THAT(box, AllOf(HasSubstr("  rank      : 1 "), HasSubstr("| ValueError: no such layer: conv9")))
      << box;
  EXPECT_THAT(box, Not(HasSubstr("alike")));
}

TEST_F(LauncherTest, KilledWorkerEndsTheJobAndIsNamed) {
  const std::string script = Script("run.sh", "echo rank $RANK pid $$ .; sleep 1000 & wait\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node", "3", "--max_restarts", "0", script}),
                Environment());
  const auto line = mtrun.WaitForLine("rank 2 pid");
  ASSERT_TRUE(line && mtrun.WaitForLines("pid", 3)) << mtrun.Text();
  const pid_t victim = PidIn(*line);
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  EXPECT_EQ(mtrun.Wait(kSoon), 128 + SIGKILL) << mtrun.Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_THAT(mtrun.Text(),
              AllOf(HasSubstr("rank 2"), HasSubstr(std::to_string(victim)), HasSubstr("SIGKILL"),
                    HasSubstr(HostName()), HasSubstr("attempt_0/2/stderr.log")));
}

TEST_F(LauncherTest, RankThatAlwaysFailsIsRestartedAsOftenAsAllowed) {
  const std::string script =
      Script("run.sh",
             "echo attempt $TORCHELASTIC_RESTART_COUNT of rank $RANK; [ $RANK = 0 ] && sleep 1000; exit 5\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node", "2", "--max_restarts", "2", script}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 5) << mtrun.Text();
  EXPECT_EQ(From(mtrun.OutLines(), "of rank 1").size(), 3u) << mtrun.Text();
  for (const char* attempt : {"attempt 0 of rank 1", "attempt 1 of rank 1", "attempt 2 of rank 1"})
    EXPECT_THAT(mtrun.Text(), HasSubstr(attempt));
}

TEST_F(LauncherTest, RankThatFailsOnceIsRestarted) {
  const std::string script = Script("run.sh",
                                    "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then [ $RANK = 1 ] && kill -9 "
                                    "$$; sleep 1000; fi; echo fine $MASTER_PORT\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node", "2", "--max_restarts", "3", script}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_EQ(From(mtrun.OutLines(), "fine").size(), 2u);
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("generation 1 ended"), HasSubstr("generation 2 formed"),
                                  HasSubstr("restart 1 of 3"), Not(HasSubstr("FAILED"))));
}

/// Workers with a wrapper, a background child and grandchildren that left the session.
constexpr char kFamily[] =
    "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & exec sleep 1000' &); sh -c 'sleep 1000; true'; true\n";
constexpr size_t kFamilySize =
    6;  // per worker: the script, its wrapper's sleep, the wrapper, three detached ones

class OrphanTest : public LauncherTest {
 protected:
  void Start() {
    const std::string script = Script("family.sh", kFamily);
    mtrun_ =
        std::make_unique<Program>(Command({"--standalone", "--nproc_per_node", "2", script}), Environment());
    // Front, guardian and agent carry the mark as well.
    ASSERT_TRUE(mark_.WaitForAlive(2 * kFamilySize + 3)) << mtrun_->Text();
    guardian_ = ChildOf(mtrun_->pid());
    agent_ = ChildOf(guardian_);
    ASSERT_TRUE(guardian_ > 0 && agent_ > 0);
  }

  std::unique_ptr<Program> mtrun_;
  pid_t guardian_ = 0, agent_ = 0;
};

TEST_F(OrphanTest, KillingMtrunLeavesNoProcess) {
  Start();
  mtrun_->Signal(SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_EQ(mtrun_->Wait(), 128 + SIGKILL);
}

TEST_F(OrphanTest, KillingTheAgentLeavesNoProcess) {
  Start();
  kill(agent_, SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_EQ(mtrun_->Wait(), 128 + SIGKILL);
  EXPECT_THAT(mtrun_->Text(), HasSubstr("was killed by SIGKILL"));
}

TEST_F(OrphanTest, KillingTheGuardianLeavesNoProcess) {
  Start();
  kill(guardian_, SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  EXPECT_EQ(mtrun_->Wait(), 128 + SIGKILL);
}

TEST_F(OrphanTest, KillingMtrunAndItsAgentTogetherLeavesNoProcess) {
  Start();
  mtrun_->Signal(SIGKILL);
  kill(agent_, SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

/// Like `pkill -9 -f mtrun`.
TEST_F(OrphanTest, KillingEveryProcessNamedMtrunLeavesNoProcess) {
  Start();
  const auto is_called_mtrun = [](pid_t pid) {
    const auto line = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"));
    return line.ok() && line->find("mtrun") != std::string::npos;
  };
  EXPECT_FALSE(is_called_mtrun(guardian_));
  EXPECT_FALSE(is_called_mtrun(agent_));
  ASSERT_TRUE(is_called_mtrun(mtrun_->pid()));
  for (const pid_t pid : mark_.Alive())
    if (is_called_mtrun(pid)) kill(pid, SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

/// Neither a socket nor a folder in the place for temporary files.
TEST_F(OrphanTest, KilledMtrunLeavesNoTemporaryFile) {
  Start();
  for (const pid_t pid : mark_.Alive()) kill(pid, SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename();
    if (name != "mtrun" && name != "family.sh") left.push_back(name);
  }
  EXPECT_THAT(left, testing::IsEmpty());
}

TEST_F(OrphanTest, OrderlyEndLeavesNoProcess) {
  Start();
  mtrun_->Signal(SIGTERM);
  EXPECT_EQ(mtrun_->Wait(kSoon), 128 + SIGTERM) << mtrun_->Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(LauncherTest, SigtermIsForwardedAndWorkersAreAwaited) {
  const std::string script = Script("run.sh",
                                    "trap 'echo saving; sleep 0.3; echo saved $RANK; exit 0' TERM; echo "
                                    "ready; while true; do sleep 0.01; done\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node", "2", script}), Environment());
  ASSERT_TRUE(mtrun.WaitForLines("ready", 2)) << mtrun.Text();
  mtrun.Signal(SIGTERM);
  EXPECT_EQ(mtrun.Wait(), 128 + SIGTERM) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("[default0]:saved 0"), HasSubstr("[default1]:saved 1"),
                                  HasSubstr("received SIGTERM")));
}

TEST_F(LauncherTest, SigintIsForwardedUnchanged) {
  const std::string script =
      Script("run.sh", "trap 'echo interrupted; exit 0' INT; echo ready; while true; do sleep 0.01; done\n");
  Program mtrun(Command({"--standalone", script}), Environment());
  ASSERT_TRUE(mtrun.WaitForLine("ready")) << mtrun.Text();
  mtrun.Signal(SIGINT);
  EXPECT_EQ(mtrun.Wait(), 128 + SIGINT) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("interrupted"));
}

TEST_F(LauncherTest, WorkersThatDoNotStopAreKilledAfterTheGrace) {
  const std::string script = Script("run.sh", "trap '' TERM; echo ready; while true; do sleep 0.01; done\n");
  Program mtrun(Command({"--standalone", "--shutdown_timeout", "0.3", script}), Environment());
  ASSERT_TRUE(mtrun.WaitForLine("ready")) << mtrun.Text();
  mtrun.Signal(SIGTERM);
  EXPECT_EQ(mtrun.Wait(kSoon), 128 + SIGTERM) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("killing them"));
}

TEST_F(LauncherTest, SecondSignalKillsAtOnce) {
  const std::string script = Script("run.sh", "trap '' TERM; echo ready; while true; do sleep 0.01; done\n");
  Program mtrun(Command({"--standalone", "--shutdown_timeout", "1000", script}), Environment());
  ASSERT_TRUE(mtrun.WaitForLine("ready")) << mtrun.Text();
  mtrun.Signal(SIGTERM);
  ASSERT_TRUE(mtrun.WaitForLine("received SIGTERM"));
  usleep(600'000);  // earlier signals count as an echo of the first
  mtrun.Signal(SIGTERM);
  EXPECT_EQ(mtrun.Wait(kSoon), 128 + SIGTERM) << mtrun.Text();
}

}  // namespace
}  // namespace mtrun::e2e
