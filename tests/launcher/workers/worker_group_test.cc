#include "launcher/workers/worker_group.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <asio.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

/// Runs a loop that handles SIGCHLD like the agent.
class WorkerGroupTest : public testing::Test {
 protected:
  WorkerGroupTest() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signals_.assign(signalfd(-1, &child_signal_.set, SFD_CLOEXEC | SFD_NONBLOCK));
    AwaitSignal();
  }

  void AwaitSignal() {
    signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (error) return;
      signalfd_siginfo info;
      while (read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
      }
      group_->OnChildSignal();
      AwaitSignal();
    });
  }

  WorkerLaunch LaunchOf(const std::string& script, int local_rank) const {
    WorkerLaunch launch;
    EnvironmentMap environment = CurrentEnvironment();
    environment[support::Mark::kVariable] = mark_.value();
    launch.streams.files.error = folder_.File(absl::StrCat("error", local_rank, ".json"));
    launch.streams.files.err = folder_.File(absl::StrCat("err", local_rank));
    environment["TORCHELASTIC_ERROR_FILE"] = launch.streams.files.error;
    launch.spec = {"/bin/sh", {"sh", "-c", script}, environment};
    if (script.empty()) launch.spec.file = "/no/such/program";
    launch.streams.local_rank = local_rank;
    return launch;
  }

  void Start(const std::vector<std::string>& scripts) {
    std::vector<WorkerLaunch> launches;
    for (const std::string& script : scripts)
      launches.push_back(LaunchOf(script, static_cast<int>(launches.size())));
    group_->Start(std::move(launches));
  }

  template <typename Condition>
  bool RunUntil(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(std::chrono::milliseconds(50));
      io_.restart();
    }
    return true;
  }

  /// Must be first: an output thread that had the signal unblocked would swallow it.
  struct ChildSignalBlocked {
    ChildSignalBlocked() {
      sigemptyset(&set);
      sigaddset(&set, SIGCHLD);
      sigprocmask(SIG_BLOCK, &set, nullptr);
    }
    sigset_t set;
  };
  const ChildSignalBlocked child_signal_;
  const support::Mark mark_;
  const support::TemporaryFolder folder_;
  asio::io_context io_;
  asio::posix::stream_descriptor signals_{io_};
  OutputMux output_{STDOUT_FILENO, STDERR_FILENO};
  const Duration record_patience_ = std::chrono::seconds(3);
  std::vector<WorkerExited> exited_;
  std::vector<int> gone_;
  std::unique_ptr<WorkerGroup> group_ =
      WorkerGroup::Make(io_, output_,
                        {[this](const WorkerExited& e) { exited_.push_back(e); },
                         [this](const WorkerGone& e) { gone_.push_back(e.local_rank); }, Process::Start,
                         [] { return -1; }, record_patience_});
};

TEST_F(WorkerGroupTest, ReportsExitsWithTheLastLinesOfStandardError) {
  Start({"exit 0", "echo the reason >&2; exit 7",
         R"(echo '{"message":"from the file","timestamp":1}' > $TORCHELASTIC_ERROR_FILE; exit 8)",
         "kill -KILL $$"});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 4 && gone_.size() == 4; }));
  std::sort(exited_.begin(), exited_.end(),
            [](const auto& a, const auto& b) { return a.local_rank < b.local_rank; });
  EXPECT_EQ(exited_[0].exit_code, 0);
  EXPECT_EQ(exited_[1].exit_code, 7);
  EXPECT_THAT(exited_[1].message, EndsWith("\nthe reason"));
  EXPECT_EQ(exited_[1].log_file, folder_.File("err1"));
  EXPECT_EQ(exited_[2].exit_code, 8);
  EXPECT_EQ(exited_[2].message, "from the file");
  EXPECT_EQ(exited_[3].signal, SIGKILL);
  EXPECT_GT(exited_[3].pid, 0);
}

/// Returns a shell command that writes an error file of `count` brackets after `start`.
std::string WriteBrackets(const std::string& start, int count) {
  return absl::StrCat("{ printf '%s' '", start, "'; head -c ", count,
                      " /dev/zero | tr '\\000' '['; } > $TORCHELASTIC_ERROR_FILE; ");
}

TEST_F(WorkerGroupTest, UnreadableErrorFileIsReportedWithItsFirstBytes) {
  Start(
      {absl::StrCat(WriteBrackets(R"({"message":"deep","timestamp":)", 3000), "echo the reason >&2; exit 3"),
       absl::StrCat(WriteBrackets(R"({"message":"long","timestamp":)", 3000000), "exit 3"),
       "printf 'no JSON at all' > $TORCHELASTIC_ERROR_FILE; exit 3",
       "rm -f $TORCHELASTIC_ERROR_FILE; mkfifo $TORCHELASTIC_ERROR_FILE; exit 3"});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 4; }));
  std::sort(exited_.begin(), exited_.end(),
            [](const auto& a, const auto& b) { return a.local_rank < b.local_rank; });
  EXPECT_THAT(exited_[0].message, AllOf(HasSubstr("the reason"), HasSubstr("error0.json"),
                                        HasSubstr("deeper than 64"), HasSubstr(R"({"message":"deep")")));
  EXPECT_THAT(exited_[1].message, AllOf(HasSubstr("error1.json"), HasSubstr("longer than 1048576 bytes"),
                                        HasSubstr(R"({"message":"long")")));
  EXPECT_LT(exited_[1].message.size(), 4096u);
  EXPECT_THAT(exited_[2].message, AllOf(HasSubstr("not valid JSON"), HasSubstr("no JSON at all")));
  EXPECT_THAT(exited_[3].message, AllOf(HasSubstr("error3.json"), HasSubstr("not an ordinary file")));
}

TEST_F(WorkerGroupTest, FirstRecordedErrorIsReportedFirst) {
  // Local rank 1 records its error and exits slowly; local rank 0 fails because of it and exits sooner.
  const std::string record = R"(echo '{"message":"%","timestamp":1}' > $TORCHELASTIC_ERROR_FILE; )";
  const std::string recorded = folder_.File("error1.json");
  // File times have the resolution of the kernel's tick: the consequence is some ticks later.
  Start({absl::StrCat("while [ ! -s ", recorded, " ]; do sleep 0.01; done; sleep 0.03; ",
                      absl::StrReplaceAll(record, {{"%", "the consequence"}}), "exit 4"),
         absl::StrCat(absl::StrReplaceAll(record, {{"%", "the cause"}}), "while [ ! -s ",
                      folder_.File("error0.json"), " ]; do sleep 0.01; done; sleep 0.05; exit 3")});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 2; }));
  EXPECT_EQ(exited_[0].message, "the cause");
  EXPECT_EQ(exited_[1].message, "the consequence");
}

TEST_F(WorkerGroupTest, WorkerThatRecordsAndExitsSlowlyIsStillTheCause) {
  const std::string recorded = folder_.File("error1.json");
  Start({absl::StrCat("while [ ! -s ", recorded, " ]; do sleep 0.01; done; exit 4"),
         "echo '{\"message\":\"the cause\"}' > $TORCHELASTIC_ERROR_FILE; sleep 1.5; exit 3"});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 2; }));
  EXPECT_EQ(exited_[0].message, "the cause");
  EXPECT_EQ(exited_[0].exit_code, 3);
  EXPECT_TRUE(exited_[0].recorded);
  EXPECT_EQ(exited_[1].exit_code, 4);
  EXPECT_FALSE(exited_[1].recorded);
}

/// Like Python programs without torchrun's `record`: peers of the rank that raised can exit sooner.
TEST_F(WorkerGroupTest, FirstPrintedTracebackIsReportedFirst) {
  const std::string printed = folder_.File("printed"),
                    raise = "echo 'Traceback (most recent call last):' >&2; ";
  const std::string consequence = absl::StrCat("while [ ! -e ", printed, " ]; do sleep 0.01; done; ", raise,
                                               "echo 'ConnectionError: gone' >&2; exit 1");
  Start({consequence,
         absl::StrCat(raise, "echo 'ValueError: the cause' >&2; sleep 0.3; touch ", printed,
                      "; sleep 0.3; exit 1"),
         consequence});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 3; }));
  EXPECT_EQ(exited_[0].local_rank, 1);
  EXPECT_THAT(exited_[0].message, EndsWith("ValueError: the cause"));
  EXPECT_LT(exited_[0].failed_at_ns, exited_[1].failed_at_ns);
}

TEST_F(WorkerGroupTest, TracebackOfASurvivorDelaysTheReportBriefly) {
  const std::string printed = folder_.File("printed");
  Start({absl::StrCat("while [ ! -e ", printed, " ]; do sleep 0.01; done; exit 4"),
         absl::StrCat("echo 'Traceback (most recent call last):' >&2; sleep 0.3; touch ", printed,
                      "; exec sleep 1000")});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1; }));
  EXPECT_EQ(exited_[0].exit_code, 4);
  EXPECT_GT(group_->PidOf(1), 0) << "it is not told to end";
  EXPECT_TRUE(RunUntil([&] { return gone_.size() == 1; })) << "no other event follows";
}

TEST_F(WorkerGroupTest, WorkerThatRecordsAnErrorAndStaysIsTerminated) {
  const std::string recorded = folder_.File("error1.json");
  Start({absl::StrCat("while [ ! -s ", recorded, " ]; do sleep 0.01; done; exit 4"),
         "echo '{\"message\":\"the cause\"}' > $TORCHELASTIC_ERROR_FILE; exec sleep 1000"});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 2; }));
  EXPECT_EQ(exited_[0].message, "the cause");
  EXPECT_EQ(exited_[0].signal, SIGTERM);
}

/// Returns a shell command that writes an error file dated `seconds` ago.
std::string RecordedBefore(int seconds) {
  return absl::StrCat("echo '{\"message\":\"handled\"}' > $TORCHELASTIC_ERROR_FILE; touch -d '", seconds,
                      " seconds ago' $TORCHELASTIC_ERROR_FILE; ");
}

/// For example, recorded by an mtrun inside the worker, which has continued since.
TEST_F(WorkerGroupTest, OldRecordIsIgnored) {
  const std::string ready = folder_.File("ready");
  Start({absl::StrCat("while [ ! -e ", ready, " ]; do sleep 0.01; done; exit 7"),
         absl::StrCat(RecordedBefore(60), "touch ", ready, "; exec sleep 1000"),
         absl::StrCat(RecordedBefore(60), "while [ ! -e ", folder_.File("end"),
                      " ]; do sleep 0.01; done; echo the reason >&2; exit 8"),
         absl::StrCat(RecordedBefore(60), "while [ ! -e ", folder_.File("end"),
                      " ]; do sleep 0.01; done; exit 9")});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1; }));
  EXPECT_EQ(exited_[0].exit_code, 7);
  EXPECT_GT(group_->PidOf(1), 0) << "it is not told to end";
  const int64_t before = WallClockNs();
  support::WriteText(folder_.File("end"), "");
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 3; }));
  for (const WorkerExited& exited : {exited_[1], exited_[2]}) {
    EXPECT_GE(exited.failed_at_ns, before);
    EXPECT_FALSE(exited.recorded);
    EXPECT_THAT(exited.message, EndsWith(exited.exit_code == 8 ? "\nthe reason" : "handled"));
  }
}

TEST_F(WorkerGroupTest, RecordCountsHoweverSlowlyItsWorkerExits) {
  const std::string ready = folder_.File("ready");
  Start({absl::StrCat("while [ ! -e ", ready, " ]; do sleep 0.01; done; exit 7"),
         absl::StrCat("trap 'sleep 2; exit 3' TERM; ", RecordedBefore(26), "touch ", ready,
                      "; while :; do sleep 0.1; done")});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 2; }));
  EXPECT_EQ(exited_[0].exit_code, 3);
  EXPECT_TRUE(exited_[0].recorded);
  EXPECT_EQ(exited_[0].message, "handled");
}

TEST_F(WorkerGroupTest, EarlierLoggedTracebackIsNotTheCause) {
  const std::string failed = folder_.File("failed"),
                    raise = "echo 'Traceback (most recent call last):' >&2; ";
  Start({absl::StrCat("sleep 4; ", raise, "echo 'ValueError: the cause' >&2; touch ", failed, "; exit 1"),
         absl::StrCat(raise, "sleep 2; echo 'tries again' >&2; while [ ! -e ", failed,
                      " ]; do sleep 0.01; done; sleep 0.15; exit 1")});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 2; }));
  EXPECT_EQ(exited_[0].local_rank, 0);
  EXPECT_THAT(exited_[0].message, EndsWith("ValueError: the cause"));
}

/// At its exit it uploads, joins threads and frees GPUs: its peers notice its end only then.
TEST_F(WorkerGroupTest, TracebackIsTheCauseHoweverSlowlyItsWorkerExits) {
  const std::string closed = folder_.File("closed"),
                    raise = "echo 'Traceback (most recent call last):' >&2; ";
  Start({absl::StrCat("while [ ! -e ", closed, " ]; do sleep 0.01; done; ", raise,
                      "echo 'ConnectionError: gone' >&2; exit 1"),
         absl::StrCat(raise, "echo 'ValueError: the cause' >&2; sleep 4; touch ", closed,
                      "; sleep 0.02; exit 1")});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 2; }));
  EXPECT_EQ(exited_[0].local_rank, 1);
  EXPECT_THAT(exited_[0].message, EndsWith("ValueError: the cause"));
}

TEST_F(WorkerGroupTest, LeaveKeepsChildrenOfTheWorkers) {
  Start({"sleep 1000 & setsid sleep 1000 & exit 0"});
  // While a process starts its program, its environment, and so the mark, cannot be read.
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1 && mark_.Alive().size() == 2; }));
  group_->Leave();
  EXPECT_TRUE(group_->empty());
  EXPECT_EQ(mark_.Alive().size(), 2u);
}

TEST_F(WorkerGroupTest, ProgramThatCannotStartIsAFailure) {
  Start({"", "exec sleep 1000"});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1 && gone_.size() == 1; }));
  EXPECT_EQ(exited_[0].local_rank, 0);
  EXPECT_EQ(exited_[0].exit_code, 127);
  EXPECT_THAT(exited_[0].message, HasSubstr("/no/such/program"));
}

TEST_F(WorkerGroupTest, ExecFailureIsDistinguished) {
  const std::string file = folder_.File("program");
  support::WriteText(file, "no machine's code");
  WorkerLaunch launch = LaunchOf("", 0);
  launch.spec.file = file;
  std::vector<WorkerLaunch> launches;
  launches.push_back(std::move(launch));
  group_->Start(std::move(launches));
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1; }));
  EXPECT_EQ(exited_[0].exit_code, 126) << exited_[0].message;
}

/// Another attempt can succeed.
TEST_F(WorkerGroupTest, DescriptorShortageIsNotBlamedOnTheProgram) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(STDERR_FILENO);
  ASSERT_EQ(close(lowest_free), 0);
  // A pipe can still be opened, which UBSan needs to look at objects; a worker needs three.
  const rlimit few = {static_cast<rlim_t>(lowest_free) + 3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Start({"exec sleep 1000"});
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1; }));
  EXPECT_EQ(exited_[0].exit_code, 1);
  EXPECT_THAT(exited_[0].message, HasSubstr("Too many open files"));
}

/// For each descriptor of a worker that can be the one too many.
TEST_F(WorkerGroupTest, StartFailsCleanlyAtEachLimitOfOpenFiles) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(STDERR_FILENO);
  ASSERT_EQ(close(lowest_free), 0);
  size_t refused = 0;
  // Starts at three, as above; with its four files a worker needs seven. Up to two more are spare if the
  // output's thread had a pipe of UBSan open when the lowest was measured.
  for (rlim_t spare = 3; spare < 20; ++spare) {
    std::vector<WorkerLaunch> launches;
    launches.push_back(LaunchOf("exec sleep 1000", 0));
    WorkerStreams& streams = launches[0].streams;
    streams.out_filters = streams.err_filters = {"text"};
    streams.files.out = folder_.File("out");
    streams.files.err = folder_.File("err");
    streams.files.filtered_out = folder_.File("filtered_out");
    streams.files.filtered_err = folder_.File("filtered_err");
    const rlimit few = {static_cast<rlim_t>(lowest_free) + spare, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    group_->Start(std::move(launches));
    setrlimit(RLIMIT_NOFILE, &before);
    if (group_->PidOf(0) > 0) break;
    ++refused;
    ASSERT_TRUE(RunUntil([&] { return exited_.size() == refused && gone_.size() == refused; }));
    EXPECT_EQ(exited_.back().exit_code, 1);
    EXPECT_THAT(exited_.back().message, HasSubstr("Too many open files"));
    group_->Clear();
    EXPECT_TRUE(mark_.Alive().empty()) << "with " << spare << " descriptors";
  }
  EXPECT_GE(refused, 2u);
  EXPECT_GT(group_->PidOf(0), 0);
}

TEST_F(WorkerGroupTest, WorkerIsGoneWhenItsProcessGroupIs) {
  // The child ignores SIGTERM while the file exists.
  const std::string hold = folder_.File("hold");
  support::WriteText(hold, "");
  Start({absl::StrCat("(trap '' TERM; while [ -e ", hold,
                      " ]; do sleep 0.02; done) & trap - TERM; sleep 1000")});
  ASSERT_TRUE(mark_.WaitForAlive(3));
  group_->Signal(SIGTERM);
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1; }));
  EXPECT_EQ(exited_[0].signal, SIGTERM);
  EXPECT_TRUE(gone_.empty());
  unlink(hold.c_str());
  EXPECT_TRUE(RunUntil([&] { return gone_.size() == 1; }));
}

TEST_F(WorkerGroupTest, DeadWorkerIsReplacedWhileTheOthersRun) {
  Start({"sleep 1000 & kill -KILL $$", "exec sleep 1000"});
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1; }));
  group_->SignalOne(0, SIGKILL);  // its remaining child
  ASSERT_TRUE(RunUntil([&] { return gone_.size() == 1; }));
  group_->Replace(0, LaunchOf("echo the successor >&2; exit 4", 0));
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 2 && gone_.size() == 2; }));
  EXPECT_EQ(exited_[1].local_rank, 0);
  EXPECT_EQ(exited_[1].exit_code, 4);
  EXPECT_NE(exited_[1].pid, exited_[0].pid);
  EXPECT_THAT(exited_[1].message, EndsWith("\nthe successor"));
  EXPECT_EQ(mark_.Alive().size(), 1u);
  group_->Replace(0, LaunchOf("", 0));
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 3 && gone_.size() == 3; }));
  EXPECT_EQ(exited_[2].exit_code, 127);
}

TEST_F(WorkerGroupTest, ClearKillsEveryProcess) {
  Start({"setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000",
         "trap '' TERM; sleep 1000"});
  ASSERT_TRUE(mark_.WaitForAlive(6));
  group_->Clear();
  EXPECT_TRUE(mark_.WaitForNone(support::Seconds(10)));
  EXPECT_TRUE(exited_.empty());
  Start({"exit 3"});  // another generation can follow
  ASSERT_TRUE(RunUntil([&] { return exited_.size() == 1; }));
  EXPECT_EQ(exited_[0].exit_code, 3);
}

}  // namespace
}  // namespace mtrun::launcher
