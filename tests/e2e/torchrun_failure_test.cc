// Checks of torchrun's own tests on failures and signals, numbered as in docs/torchrun_tests.md.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/either.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::Eq;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// ---- shared with torchrun ----

class Failing : public EitherTest {
 protected:
  /// Runs a shell script on two workers, with an error file for the launcher itself.
  std::unique_ptr<Program> Run(const std::vector<std::string>& flags, const std::string& script) const {
    return Start(Words(Words({"--standalone", "--nproc_per_node=2"}, flags),
                       {"--no_python", Script("run.sh", script)}),
                 {{"TORCHELASTIC_ERROR_FILE", folder_.File("own.json")}});
  }
  nlohmann::json Own() const { return nlohmann::json::parse(support::ReadText(folder_.File("own.json"))); }
};
MT_UNDER_EITHER(Failing);

TEST_P(Failing, Behaviour24And25RootCauseIsCopiedToTheLaunchersErrorFile) {
  const auto run =
      Run({},
          "[ $RANK = 1 ] || sleep 1000\n"
          R"(echo '{"message":{"message":"RuntimeError: raised on rank 1","extraInfo":{"py_callstack":)"
          R"("Traceback ...","timestamp":"1700000000"}}}' > $TORCHELASTIC_ERROR_FILE; exit 3)");
  EXPECT_EQ(run->Wait(), Failed(3)) << run->Text();
  const auto own = Own()["message"];
  EXPECT_EQ(own["message"], "RuntimeError: raised on rank 1");
  EXPECT_EQ(own["extraInfo"]["py_callstack"], "Traceback ...");
  EXPECT_EQ(own["extraInfo"]["timestamp"], "1700000000");
  EXPECT_EQ(own["errorCode"], 3);
}

TEST_P(Failing, Behaviour26AlwaysFailingMeansExactlyThreeAttempts) {
  const auto run = Run({"--max-restarts=2"},
                       "[ $RANK = 1 ] || exec sleep 1000\necho attempt "
                       "$TORCHELASTIC_RESTART_COUNT; exit 1\n");
  EXPECT_EQ(run->Wait(), 1);
  EXPECT_THAT(From(run->OutLines(), "attempt"), ElementsAre("attempt 0", "attempt 1", "attempt 2"));
}

TEST_P(Failing, Behaviour27KilledRankIsRestartedOnce) {
  const auto run = Run({"--max_restarts=3"},
                       "[ $TORCHELASTIC_RESTART_COUNT$RANK = 01 ] && kill -9 $$\n"
                       "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 1000\n");
  EXPECT_EQ(run->Wait(), 0) << run->Text();
}

TEST_P(Failing, Behaviour31ProgramThatCannotStartIsADistinctError) {
  support::WriteText(folder_.File("run"), "#!/no/such/interpreter\n", true);
  const auto run = Start({"--standalone", "--max_restarts=3", "--no_python", folder_.File("run")});
  EXPECT_EQ(run->Wait(), Failed(127));
  EXPECT_THAT(run->Text(), HasSubstr(torchrun() ? "FileNotFoundError" : "could not be started"));
}

TEST_P(Failing, Behaviour34FailureDoesNotWaitForOtherNodes) {
  const std::string script = Script("run.sh", "echo up as $RANK\n[ $RANK = 1 ] || exec sleep 1000\nexit 5\n");
  const std::vector<std::string> flags = {"--no_python", script};
  const auto first = Agent("2", flags), second = Agent("2", flags);
  ASSERT_TRUE(first->WaitForLine("up") && second->WaitForLine("up")) << first->Text() << second->Text();
  if (!torchrun()) {  // the whole job ends, on every node with the worker's status
    EXPECT_EQ(first->Wait(kSoon), 5) << first->Text();
    EXPECT_EQ(second->Wait(kSoon), 5) << second->Text();
    for (Program* node : {first.get(), second.get()}) {
      EXPECT_THAT(node->Text(), HasSubstr("Root Cause (first observed failure):"));
      EXPECT_THAT(From(node->ErrLines(), "rank      : 1 "), SizeIs(1));
    }
    return;
  }
  // The failed node ends. The other one ends only if the failed one had the store, and with an error.
  const bool is_first = absl::StrContains(first->Text(), "up as 1");
  EXPECT_EQ((is_first ? first : second)->Wait(Seconds(20)), 1) << first->Text() << second->Text();
  Program& other = is_first ? *second : *first;
  other.Signal(SIGTERM);
  EXPECT_THAT(other.Wait(), AnyOf(Eq(1), Eq(143))) << "the signal meets torchrun anywhere\n" << other.Text();
}

TEST_P(Failing, Behaviour39WorkersAreStoppedExactlyOnce) {
  // Rank 0 reports each signal, and waits a moment for a second one.
  const auto run =
      Run({"--max_restarts=1"},
          absl::StrCat("attempt=$TORCHELASTIC_RESTART_COUNT ready=", folder_.path(),
                       "/ready_$attempt\n"
                       "if [ $RANK = 1 ]; then while [ ! -e $ready ]; do sleep 0.05; done; exit 5; fi\n"
                       "trap 'echo stopped in attempt $attempt; stopped=1' TERM\n"
                       "touch $ready\n"
                       "while [ -z \"$stopped\" ]; do sleep 0.05; done\n"
                       "sleep 0.5\n"));
  EXPECT_EQ(run->Wait(), Failed(5)) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "stopped"), ElementsAre("stopped in attempt 0", "stopped in attempt 1"))
      << run->Text();
}

TEST_P(Failing, Behaviour43OnlyListedSignalsAreHandled) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string toy = support::TestFile("support/toys/wrapper.py");
  const auto listed = Start({"--standalone", "--signals-to-handle=SIGUSR2,SIGNONE", toy});
  ASSERT_TRUE(listed->WaitForLine("UP")) << listed->Text();
  EXPECT_THAT(listed->Text(), HasSubstr("SIGNONE"));
  listed->Signal(SIGUSR2);
  EXPECT_EQ(listed->Wait(kSoon), Failed(128 + SIGUSR2)) << listed->Text();
  EXPECT_THAT(listed->Text(), HasSubstr("GOT SIGUSR2"));
}

TEST_P(Failing, Behaviour66And70ExitCode138IsReportedUnchanged) {
  const auto run = Run({}, "[ $RANK = 0 ] || exit 138\n");  // and records nothing
  EXPECT_EQ(run->Wait(), Failed(138));
  EXPECT_THAT(run->Text(), AllOf(HasSubstr("exitcode  : 138"), HasSubstr("rank      : 1 "),
                                 HasSubstr("error_file: <N/A>")));
}

TEST_P(Failing, Behaviour67SegmentationFaultIsReportedByName) {
  const auto run = Run({}, "ulimit -c 0\n[ $RANK = 0 ] || kill -SEGV $$\nexec sleep 1000\n");
  EXPECT_EQ(run->Wait(), Failed(128 + SIGSEGV));
  EXPECT_THAT(run->Text(), AllOf(HasSubstr("SIGSEGV"), HasSubstr("ignal 11")));
  EXPECT_THAT(
      run->Text(),
      AllOf(HasSubstr("Failures:"), HasSubstr("Root Cause (first observed failure):"),
            HasSubstr("rank      : 1 (local_rank: 1)"), ContainsRegex("exitcode  : -11 \\(pid: [0-9]+\\)"),
            ContainsRegex("traceback : Signal 11 \\(SIGSEGV\\) received by PID [0-9]+")));
}

TEST_P(Failing, Behaviour68MissingProgramIsDetectedBeforeAnyWorkerRuns) {
  const auto run = Start({"--standalone", "--nproc_per_node=2", "--no_python", folder_.File("missing")});
  EXPECT_EQ(run->Wait(), Refused()) << run->Text();
  EXPECT_THAT(run->Text(), AllOf(HasSubstr("missing"), Not(HasSubstr("generation"))));
}

TEST_P(Failing, Behaviour69And70RootCauseIsTheEarliestErrorEvenInFlatForm) {
  // Rank 1 fails first and exits slowly; rank 0, whose peer is lost, exits before it.
  const auto run = Run({}, absl::StrCat("record() { echo '{\"message\":\"'$1'\",\"timestamp\":'$2'}' > "
                                        "$TORCHELASTIC_ERROR_FILE; }\n",
                                        "if [ $RANK = 1 ]; then record 'the cause' 1700000000; touch ",
                                        folder_.File("failed"), "; sleep 2; exit 3; fi\n", "while [ ! -e ",
                                        folder_.File("failed"), " ]; do sleep 0.02; done; sleep 0.05\n",
                                        "record 'peer lost' \\\"1700000005\\\"; exit 4\n"));
  EXPECT_EQ(run->Wait(), Failed(3)) << run->Text();
  EXPECT_EQ(Own()["message"], "the cause") << run->Text();
  EXPECT_THAT(run->Text(), HasSubstr("peer lost"));  // listed below it
}

/// 41, 42: the workers get the launcher's signal, and so do their child processes.
class Signalled : public EitherTest {};
MT_UNDER_EITHER(Signalled);

TEST_P(Signalled, Behaviour41And42SignalReachesTheWorkersAndTheirChildren) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    const auto run =
        Start({"--standalone", "--nproc_per_node=2", support::TestFile("support/toys/wrapper.py")});
    ASSERT_TRUE(run->WaitForLines("UP", 2)) << run->Text();
    run->Signal(signal);
    EXPECT_EQ(run->Wait(kSoon), Failed(128 + signal)) << run->Text();
    EXPECT_THAT(From(run->OutLines(), absl::StrCat("GOT SIG", sigabbrev_np(signal))), SizeIs(2))
        << run->Text();
    EXPECT_TRUE(mark_.WaitForNone(kSoon));
  }
}

// ---- mtrun's own ----

class TorchrunFailure : public LauncherTest {};

TEST_F(TorchrunFailure, Behaviour31ProgramThatCannotStartUsesNoRestart) {
  support::WriteText(folder_.File("run"), "#!/no/such/interpreter\n", true);
  Program mtrun(Command({"--standalone", "--max_restarts=3", folder_.File("run")}), Environment());
  EXPECT_EQ(mtrun.Wait(), 127);
  EXPECT_THAT(mtrun.Text(), Not(HasSubstr("generation 2")));
}

TEST_F(TorchrunFailure, Behaviour25RootCauseIsCopiedOnEveryNode) {
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

TEST_F(TorchrunFailure, Behaviour26RestartBudgetIsSharedByTheWholeJob) {
  // Each node fails in turn; torchrun would allow two restarts on each. No node fails before the other one
  // has also printed its line.
  const std::string script = Script(
      "run.sh", absl::StrCat("attempt=$TORCHELASTIC_RESTART_COUNT said=", folder_.path(), "/said_$attempt\n",
                             "echo attempt $attempt; mkdir ${said}_$RANK\n"
                             "[ $((attempt % 2)) = $RANK ] || sleep 1000\n"
                             "until [ -d ${said}_$((1 - RANK)) ]; do sleep 0.01; done\nexit 6\n"));
  const auto first = Agent("2", {"--max_restarts=2", "--node_rank=0", script});
  const auto second = Agent("2", {"--max_restarts=2", "--node_rank=1", script});
  EXPECT_EQ(first->Wait(), 6) << first->Text();
  EXPECT_EQ(second->Wait(), 6) << second->Text();
  EXPECT_THAT(From(first->OutLines(), "attempt"),
              testing::ElementsAre("attempt 0", "attempt 1", "attempt 2"));
  EXPECT_THAT(From(second->OutLines(), "attempt"),
              testing::ElementsAre("attempt 0", "attempt 1", "attempt 2"));
}

TEST_F(TorchrunFailure, Behaviour28SuccessLeavesTheBudgetUntouched) {
  const std::string script = Script("run.sh", absl::StrCat("[ $RANK = 0 ] || while [ ! -e ",
                                                           folder_.File("go"), " ]; do sleep 0.05; done\n"));
  // The node that hosts the service reports finished nodes.
  const auto first = Agent("2", {"--node_rank=0", "--max_restarts=3", "--rdzv_conf=is_host=1", script},
                           {{"LOGLEVEL", "debug"}});
  const auto second = Agent("2", {"--node_rank=1", "--max_restarts=3", "--rdzv_conf=is_host=0", script});
  ASSERT_TRUE(first->WaitForLine("finished (1 of 2)")) << first->Text() << second->Text();
  Program status(Command({"--status", endpoint_, "--json"}), Environment());
  EXPECT_EQ(status.Wait(), 0) << status.Text();
  const auto job = nlohmann::json::parse(status.Text())["jobs"].at(0);
  EXPECT_EQ(job["restarts"], 0);
  EXPECT_EQ(job["max_restarts"], 3);
  support::WriteText(folder_.File("go"), "");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

/// Returns {generation number: number of records of `event`} of the event log `path`.
std::map<int, int> EventsByGeneration(const std::string& path, const std::string& event) {
  std::map<int, int> found;
  for (const absl::string_view line : absl::StrSplit(support::ReadText(path), '\n', absl::SkipEmpty())) {
    const auto record = nlohmann::json::parse(std::string(line));
    if (record["event"] == event) ++found[record["generation"]];
  }
  return found;
}

TEST_F(TorchrunFailure, Behaviour59GenerationsGrowByOneAndStartTheirWorkersOnce) {
  const std::string events = folder_.File("events.jsonl");
  Program mtrun(Command({"--standalone", "--max_restarts=4", "--event_log", events,
                         Script("run.sh", "[ $TORCHELASTIC_RESTART_COUNT = 4 ]\n")}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  const std::map<int, int> once = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
  EXPECT_EQ(EventsByGeneration(events, "generation_assigned"), once);
  EXPECT_EQ(EventsByGeneration(events, "workers_started"), once);
}

TEST_F(TorchrunFailure, Behaviour36To38NodesFinishAtDifferentTimesWithoutABarrier) {
  const std::string script = Script("run.sh", "[ $RANK = 0 ] || sleep 0.7\necho finished\n");
  const std::vector<std::string> flags = {"--exit_barrier_timeout=0", script};
  const auto first = Agent("2", flags), second = Agent("2", flags);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_F(TorchrunFailure, MasterCanFinishSecondsBeforeTheOthers) {
  // It serves the store itself: by then the others have got what they need from it.
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string script = folder_.File("late.py");
  support::WriteText(
      script,
      absl::StrCat("import os, runpy, time\nrunpy.run_path('", support::TestFile("support/toys/meet.py"),
                   "')\nif os.environ['RANK'] != '0':\n    time.sleep(2)\n    print('LATE')\n"));
  Program mtrun(Command({"--standalone", "--store=rank0", "--nproc_per_node=3", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "LATE"), SizeIs(2));
}

/// 41, 42: the workers get the agent's signal, and no wrapper or grandchild survives.
class TorchrunSignal : public LauncherTest, public testing::WithParamInterface<int> {};

TEST_P(TorchrunSignal, Behaviour41And42SignalReachesTheWorkersAndLeavesNoProcess) {
  const std::string script = Script(
      "wrapper.sh",
      "sh -c 'sleep 1000; true' &\ntrap 'echo got it; exit 0' TERM INT HUP QUIT USR1\necho up\nwait\nwait\n");
  // A shell's background children ignore SIGINT and SIGQUIT: they end with the grace.
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--shutdown_timeout=0.5", script}),
                Environment());
  ASSERT_TRUE(mtrun.WaitForLines("up", 2)) << mtrun.Text();
  mtrun.Signal(GetParam());
  EXPECT_EQ(mtrun.Wait(kSoon), 128 + GetParam()) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "got it"), SizeIs(2)) << mtrun.Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

INSTANTIATE_TEST_SUITE_P(All, TorchrunSignal, testing::Values(SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1));

TEST_F(TorchrunFailure, Behaviour43UnlistedSignalsHaveTheirDefaultEffect) {
  const std::string script = Script("run.sh", "echo up\nwhile true; do sleep 0.05; done\n");
  Program unlisted(Command({"--standalone", "--signals-to-handle=SIGINT", script}), Environment());
  ASSERT_TRUE(unlisted.WaitForLine("up")) << unlisted.Text();
  unlisted.Signal(SIGTERM);  // default action: it dies, and its guardian kills everything
  EXPECT_EQ(unlisted.Wait(kSoon), 128 + SIGTERM);
  EXPECT_THAT(unlisted.Text(), Not(HasSubstr("received SIGTERM")));
}

TEST_F(TorchrunFailure, Behaviour44GraceBeforeSigkillIsConfigurable) {
  // torchrun 2.11 has neither the flag nor the variable: its grace is 30 s.
  const std::string script = Script("run.sh", "trap '' TERM\necho ready\nwhile true; do sleep 0.05; done\n");
  const support::Overlay environment = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1000"}};
  const auto run = Agent("1", {"--shutdown_timeout=0.1", script}, environment);  // the flag takes precedence
  ASSERT_TRUE(run->WaitForLine("ready")) << run->Text();
  run->Signal(SIGTERM);
  EXPECT_EQ(run->Wait(kSoon), 128 + SIGTERM) << run->Text();
  EXPECT_THAT(run->Text(), HasSubstr("killing them"));
  const auto variable = Agent("1", {script}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "0"}});
  ASSERT_TRUE(variable->WaitForLine("ready")) << variable->Text();
  variable->Signal(SIGTERM);
  EXPECT_EQ(variable->Wait(kSoon), 128 + SIGTERM) << variable->Text();
  const auto negative = Agent("1", {"--shutdown_timeout=-1", script});
  EXPECT_EQ(negative->Wait(), 2);
  EXPECT_THAT(negative->Text(), HasSubstr("--shutdown_timeout: \"-1\" is not allowed"));
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

TEST_F(TorchrunFailure, ClosedTerminalDoesNotStopANohupRun) {
  const std::string script = Script(
      "run.sh", absl::StrCat("echo up; while [ ! -e ", folder_.File("go"), " ]; do sleep 0.05; done\n"));
  Program mtrun({"sh", "-c", absl::StrCat("trap '' HUP; exec ", Mtrun(), " --standalone ", script)},
                Environment());
  ASSERT_TRUE(mtrun.WaitForLine("up")) << mtrun.Text();
  mtrun.Signal(SIGHUP);
  support::WriteText(folder_.File("go"), "");
  EXPECT_EQ(mtrun.Wait(kSoon), 0) << mtrun.Text();
}

TEST_F(TorchrunFailure, TooDeeplyNestedErrorFileIsReportedWithoutACrash) {
  support::Overlay environment = Environment();
  environment["TORCHELASTIC_ERROR_FILE"] = folder_.File("own.json");
  const std::string brackets = "head -c 3000000 /dev/zero | tr '\\000' ";
  Program mtrun(
      Command({"--standalone",
               Script("run.sh",
                      absl::StrCat("{ printf '{\"message\":\"deep\",\"timestamp\":'; ", brackets, "'['; ",
                                   brackets, "']'; printf '}'; } > $TORCHELASTIC_ERROR_FILE; exit 3\n"))}),
      environment);
  EXPECT_EQ(mtrun.Wait(), 3) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("Root Cause"), HasSubstr("longer than 1048576 bytes"),
                                  HasSubstr(R"({"message":"deep","timestamp":[[[[)")));
  EXPECT_THAT(support::ReadText(folder_.File("own.json")), HasSubstr(R"("errorCode":3)"));
}

TEST_F(TorchrunFailure, LastLinesOfStandardErrorReplaceAMissingTraceback) {
  const std::string script = Script("run.sh",
                                    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 "
                                    "25; do echo line $i >&2; done; exit 1\n");
  Program mtrun(Command({"--standalone", "-r", "3", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 1);
  EXPECT_THAT(
      mtrun.Text(),
      AllOf(HasSubstr("| line 15\n"), HasSubstr("| line 25\n"), Not(HasSubstr("| line 14\n")),
            HasSubstr("| (9 more lines, and all before them in "), HasSubstr("/attempt_0/0/stderr.log)")));
}

}  // namespace
}  // namespace mtrun::e2e
