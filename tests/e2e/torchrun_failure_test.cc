// What torchrun's own tests check about failures, restarts and shutdown, against mtrun. The numbers are those
// of docs/torchrun.md.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

/// "within 2 seconds", with room for a loaded machine and sanitizers.
constexpr Seconds kSoon{20};

class TorchrunFailure : public LauncherTest {};

TEST_F(TorchrunFailure, Behaviour24AFailingWorkerFailsTheLauncher) {
  Program mtrun(
      Command({"--standalone", "--nproc_per_node=2", Script("run.sh", "[ $RANK = 0 ] || exit 4\n")}),
      Environment());
  EXPECT_EQ(mtrun.Wait(), 4);
}

TEST_F(TorchrunFailure, Behaviour25TheRootCauseIsCopiedToTheLaunchersErrorFile) {
  const std::string record =
      R"({"message":{"message":"RuntimeError: raised on rank 1","extraInfo":{"py_callstack":"Traceback ...","timestamp":"1700000000"}}})";
  const std::string script = Script("run.sh", absl::StrCat("[ $RANK = 1 ] || sleep 1000\necho '", record,
                                                           "' > $TORCHELASTIC_ERROR_FILE; exit 3\n"));
  const support::Overlay overlay = {{"TORCHELASTIC_ERROR_FILE", folder_.File("own.json")}};
  const auto first =
      Agent("2", {"--node_rank=0", script}, {{"TORCHELASTIC_ERROR_FILE", folder_.File("first.json")}});
  const auto second =
      Agent("2", {"--node_rank=1", script}, {{"TORCHELASTIC_ERROR_FILE", folder_.File("second.json")}});
  EXPECT_EQ(first->Wait(), 3) << first->Text();
  EXPECT_EQ(second->Wait(), 3) << second->Text();
  for (const char* name : {"first.json", "second.json"}) {
    const auto own = nlohmann::json::parse(support::ReadText(folder_.File(name)))["message"];
    EXPECT_EQ(own["message"], "RuntimeError: raised on rank 1") << name;
    EXPECT_EQ(own["extraInfo"]["py_callstack"], "Traceback ...") << name;
    EXPECT_EQ(own["errorCode"], 3) << name;
  }
  const auto own = nlohmann::json::parse(support::ReadText(folder_.File("second.json")));
  EXPECT_EQ(own["message"]["extraInfo"]["timestamp"], "1700000000");
}

TEST_F(TorchrunFailure, Behaviour26AlwaysFailingMeansExactlyThreeAttempts) {
  const std::string script = Script("run.sh", "echo attempt $TORCHELASTIC_RESTART_COUNT; exit 1\n");
  Program mtrun(Command({"--standalone", "--max-restarts=2", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 1);
  EXPECT_THAT(From(mtrun.OutLines(), "attempt"), testing::ElementsAre("attempt 0", "attempt 1", "attempt 2"));
}

TEST_F(TorchrunFailure, Behaviour26TheBudgetIsTheWholeJobs) {
  // Each node fails in turn; torchrun would allow two restarts on each.
  const std::string script = Script("run.sh",
                                    "echo attempt $TORCHELASTIC_RESTART_COUNT; [ "
                                    "$((TORCHELASTIC_RESTART_COUNT % 2)) = $RANK ] && exit 6; sleep 1000\n");
  const auto first = Agent("2", {"--max_restarts=2", "--node_rank=0", script});
  const auto second = Agent("2", {"--max_restarts=2", "--node_rank=1", script});
  EXPECT_EQ(first->Wait(), 6) << first->Text();
  EXPECT_EQ(second->Wait(), 6) << second->Text();
  EXPECT_THAT(From(first->OutLines(), "attempt"),
              testing::ElementsAre("attempt 0", "attempt 1", "attempt 2"));
  EXPECT_THAT(From(second->OutLines(), "attempt"),
              testing::ElementsAre("attempt 0", "attempt 1", "attempt 2"));
}

TEST_F(TorchrunFailure, Behaviour27AKilledRankIsForgivenOnce) {
  const std::string script = Script("run.sh",
                                    "[ $TORCHELASTIC_RESTART_COUNT$RANK = 01 ] && kill -9 $$\n[ "
                                    "$TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--max_restarts=3", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
}

TEST_F(TorchrunFailure, Behaviour31AProgramThatCannotStartIsAnErrorOfItsOwn) {
  support::WriteText(folder_.File("run.sh"), "#!/no/such/interpreter\n", true);
  Program mtrun(Command({"--standalone", folder_.File("run.sh")}), Environment());
  EXPECT_EQ(mtrun.Wait(), 127);
  EXPECT_THAT(mtrun.Text(), HasSubstr("could not be started"));
}

/// Workers that say who they are and run until the file "go" is there.
class TorchrunElastic : public LauncherTest {
 protected:
  std::string Script() const {
    return LauncherTest::Script(
        "wait.sh", absl::StrCat("echo world $WORLD_SIZE restarts $TORCHELASTIC_RESTART_COUNT\nwhile [ ! -e ",
                                folder_.File("go"), " ]; do sleep 0.05; done\n"));
  }
  void Go() const { support::WriteText(folder_.File("go"), ""); }
  std::unique_ptr<Program> Node(const std::string& nnodes, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> flags = {"--rdzv_conf", "last_call_timeout=0.1"};
    flags.insert(flags.end(), more.begin(), more.end());
    flags.push_back(Script());
    return Agent(nnodes, flags);
  }
};

TEST_F(TorchrunElastic, Behaviour29And35ANodeThatJoinsUsesNoBudget) {
  const auto first = Node("1:2", {"--max_restarts=1", "--log_dir", folder_.File("logs")});
  ASSERT_TRUE(first->WaitForLine("world 1 restarts 0")) << first->Text();
  const auto second = Node("1:2", {"--max_restarts=1"});
  ASSERT_TRUE(first->WaitForLine("world 2 restarts 0", kSoon)) << first->Text();
  ASSERT_TRUE(second->WaitForLine("world 2 restarts 0", kSoon)) << second->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  // The first generation's logs are still there, the second's lie beside them.
  const std::string run = RunFolder("logs");
  EXPECT_EQ(support::ReadText(run + "/attempt_0/0/stdout.log"), "world 1 restarts 0\n");
  EXPECT_EQ(support::ReadText(run + "/attempt_0.g2/0/stdout.log"), "world 2 restarts 0\n");
}

TEST_F(TorchrunElastic, Behaviour32AKilledAgentThatIsStartedAgain) {
  const auto first = Node("2", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  auto second = Node("2", {"--node_rank=1"});
  ASSERT_TRUE(first->WaitForLine("world 2") && second->WaitForLine("world 2")) << first->Text();
  second->Signal(SIGKILL);
  second = Node("2", {"--node_rank=1"});
  ASSERT_TRUE(first->WaitForLines("world 2 restarts 0", 2, kSoon)) << first->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_F(TorchrunElastic, Behaviour33ALostNodeIsNotMissedForLong) {
  // These workers do not communicate: nothing but the launcher can notice.
  const auto first = Node("1:2", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  const auto second = Node("1:2", {"--node_rank=1"});
  ASSERT_TRUE(first->WaitForLine("world 2", kSoon)) << first->Text();
  second->Signal(SIGKILL);
  const size_t before = From(first->OutLines(), "world 1").size();
  ASSERT_TRUE(first->WaitForLines("world 1 restarts 0", before + 1, kSoon)) << first->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
}

TEST_F(TorchrunFailure, Behaviour34AFailureEndsAllNodesAtOnce) {
  const std::string script = Script("run.sh", "echo up; [ $RANK = 1 ] || sleep 1000\nexit 5\n");
  const auto first = Agent("2", {"--node_rank=0", script}), second = Agent("2", {"--node_rank=1", script});
  EXPECT_EQ(first->Wait(kSoon), 5) << first->Text();
  EXPECT_EQ(second->Wait(kSoon), 5) << second->Text();
  EXPECT_THAT(first->Text(), HasSubstr("Root cause"));
  EXPECT_THAT(From(first->ErrLines(), "rank        : 1"), SizeIs(1));
}

TEST_F(TorchrunFailure, Behaviour36To38NodesMayFinishAtDifferentTimesWithoutABarrier) {
  const std::string script = Script("run.sh", "[ $RANK = 0 ] || sleep 0.7\necho finished\n");
  const std::vector<std::string> flags = {"--exit_barrier_timeout=0", script};
  const auto first = Agent("2", flags), second = Agent("2", flags);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_F(TorchrunFailure, MasterMayFinishSecondsBeforeTheOthers) {
  // The store lives in rank 0's process (USE_AGENT_STORE=False): what the others need of it they have by
  // then.
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string script = folder_.File("late.py");
  support::WriteText(
      script,
      absl::StrCat("import os, runpy, time\nrunpy.run_path('", support::TestFile("support/toys/meet.py"),
                   "')\nif os.environ['RANK'] != '0':\n    time.sleep(2)\n    print('LATE')\n"));
  Program mtrun(Command({"--standalone", "--nproc_per_node=3", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "LATE"), SizeIs(2));
}

TEST_F(TorchrunElastic, Behaviour40And54AStoppedNodeLeavesTheJobOpen) {
  const auto first = Node("1:2", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  auto second = Node("1:2", {"--node_rank=1"});
  ASSERT_TRUE(first->WaitForLine("world 2", kSoon)) << first->Text();
  second->Signal(SIGTERM);
  EXPECT_EQ(second->Wait(), 128 + SIGTERM) << second->Text();
  const size_t before = From(first->OutLines(), "world 2").size();
  second = Node("1:2", {"--node_rank=1"});  // torchrun would say that the rendezvous is closed
  ASSERT_TRUE(first->WaitForLines("world 2", before + 1, kSoon)) << first->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_F(TorchrunElastic, Behaviour46And49ASpareWaitsAndEndsWithTheJob) {
  const auto first = Node("1", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("world 1", kSoon)) << first->Text();
  const auto spare = Node("1", {"--node_rank=1"});
  ASSERT_TRUE(spare->WaitForLine("spare", kSoon)) << spare->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(spare->Wait(), 0) << spare->Text();
}

TEST_F(TorchrunElastic, Behaviour50ASpareReplacesALostNode) {
  const auto first = Node("2", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  const auto second = Node("2", {"--node_rank=1"});
  ASSERT_TRUE(first->WaitForLine("world 2", kSoon)) << first->Text();
  const auto spare = Node("2");
  ASSERT_TRUE(spare->WaitForLine("spare", kSoon)) << spare->Text();
  second->Signal(SIGKILL);
  ASSERT_TRUE(spare->WaitForLine("world 2 restarts 0", kSoon)) << spare->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(spare->Wait(), 0) << spare->Text();
}

/// 41, 42: the workers get the agent's signal, and no wrapper or grandchild survives.
class TorchrunSignal : public LauncherTest, public testing::WithParamInterface<int> {};

TEST_P(TorchrunSignal, Behaviour41And42ReachesTheWorkersAndLeavesNothing) {
  const std::string script = Script(
      "wrapper.sh",
      "sh -c 'sleep 1000; true' &\ntrap 'echo got it; exit 0' TERM INT HUP QUIT USR1\necho up\nwait\nwait\n");
  // A shell's children in the background ignore SIGINT and SIGQUIT: those end with the grace.
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--shutdown_timeout=0.5", script}),
                Environment());
  ASSERT_TRUE(mtrun.WaitForLines("up", 2)) << mtrun.Text();
  mtrun.Signal(GetParam());
  EXPECT_EQ(mtrun.Wait(kSoon), 128 + GetParam()) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "got it"), SizeIs(2)) << mtrun.Text();
  EXPECT_TRUE(mark_.WaitForNone(Seconds(5)));
}

INSTANTIATE_TEST_SUITE_P(All, TorchrunSignal, testing::Values(SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1));

TEST_F(TorchrunFailure, Behaviour43OnlyListedSignalsAreHandled) {
  const std::string script =
      Script("run.sh", "trap 'echo got it; exit 0' USR2 TERM\necho up\nwhile true; do sleep 0.05; done\n");
  Program listed(Command({"--standalone", "--signals-to-handle=SIGUSR2,SIGNONE", script}), Environment());
  ASSERT_TRUE(listed.WaitForLine("up")) << listed.Text();
  EXPECT_THAT(listed.Text(), HasSubstr("\"SIGNONE\""));
  listed.Signal(SIGUSR2);
  EXPECT_EQ(listed.Wait(kSoon), 128 + SIGUSR2) << listed.Text();
  EXPECT_THAT(listed.Text(), HasSubstr("got it"));
  Program unlisted(Command({"--standalone", "--signals-to-handle=SIGINT", script}), Environment());
  ASSERT_TRUE(unlisted.WaitForLine("up")) << unlisted.Text();
  unlisted.Signal(SIGTERM);  // the default: it dies, and its guardian takes everything along
  EXPECT_EQ(unlisted.Wait(kSoon), 128 + SIGTERM);
  EXPECT_THAT(unlisted.Text(), Not(HasSubstr("received SIGTERM")));
}

TEST_F(TorchrunFailure, ForwardedSignalsStopNothing) {
  const std::string script = Script(
      "run.sh",
      "trap 'echo one' USR1; trap 'echo two; exit 0' USR2\necho up\nwhile true; do sleep 0.05; done\n");
  Program mtrun(
      Command({"--standalone", "--nproc_per_node=2", "--signals_to_forward=SIGUSR1,SIGUSR2", script}),
      Environment());
  ASSERT_TRUE(mtrun.WaitForLines("up", 2)) << mtrun.Text();
  mtrun.Signal(SIGUSR1);
  ASSERT_TRUE(mtrun.WaitForLines("]:one", 2)) << mtrun.Text();
  mtrun.Signal(SIGUSR2);
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "two"), SizeIs(2));
}

TEST_F(TorchrunFailure, ATerminalThatClosesDoesNotStopANohupRun) {
  const std::string script = Script(
      "run.sh", absl::StrCat("echo up; while [ ! -e ", folder_.File("go"), " ]; do sleep 0.05; done\n"));
  Program mtrun({"sh", "-c", absl::StrCat("trap '' HUP; exec ", Mtrun(), " --standalone ", script)},
                Environment());
  ASSERT_TRUE(mtrun.WaitForLine("up")) << mtrun.Text();
  mtrun.Signal(SIGHUP);
  support::WriteText(folder_.File("go"), "");
  EXPECT_EQ(mtrun.Wait(kSoon), 0) << mtrun.Text();
}

TEST_F(TorchrunFailure, Behaviour66AnExitCodeOf138IsReportedAsSuch) {
  Program mtrun(
      Command({"--standalone", "--nproc_per_node=2", Script("run.sh", "[ $RANK = 0 ] || exit 138\n")}),
      Environment());
  EXPECT_EQ(mtrun.Wait(), 138);
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("what        : exit code 138"), HasSubstr("rank        : 1")));
}

TEST_F(TorchrunFailure, Behaviour67ASegmentationFaultIsNamed) {
  Program mtrun(Command({"--standalone", Script("run.sh", "ulimit -c 0; kill -SEGV $$\n")}), {Environment()});
  EXPECT_EQ(mtrun.Wait(), 128 + SIGSEGV);
  EXPECT_THAT(mtrun.Text(), HasSubstr("killed by SIGSEGV (signal 11)"));
}

TEST_F(TorchrunFailure, Behaviour68AMissingProgramIsFoundOutBeforeAnyWorkerRuns) {
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--no_python", folder_.File("missing")}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 2);
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("does not exist"), Not(HasSubstr("generation"))));
}

TEST_F(TorchrunFailure, TheLastLinesOfStandardErrorStandInForATraceback) {
  const std::string script = Script("run.sh",
                                    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 "
                                    "25; do echo line $i >&2; done; exit 1\n");
  Program mtrun(Command({"--standalone", "-r", "3", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 1);
  EXPECT_THAT(mtrun.Text(),
              AllOf(HasSubstr("| line 6\n"), HasSubstr("| line 25\n"), Not(HasSubstr("| line 5\n"))));
}

}  // namespace
}  // namespace mtrun::e2e
