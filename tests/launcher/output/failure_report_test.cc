#include "launcher/output/failure_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(FailureReportTest, DescribesTheFailureRankHostAndReason) {
  rendezvous::JobOutcome outcome;
  outcome.exit_code = 137;
  outcome.reason = "no restart is left";
  outcome.root_cause = rendezvous::WorkerFailure{
      "node2", 3, 1, 4711, 0, 9, "/logs/1/stderr.log", "line a\nline b", "2026-01-01T00:00:00Z"};
  EXPECT_THAT(
      FailureReport("cnnA", outcome),
      AllOf(HasSubstr("cnnA FAILED"), HasSubstr("no restart is left"),
            HasSubstr("exitcode  : -9 (pid: 4711) killed by SIGKILL\n"), HasSubstr("3 (local_rank: 1)"),
            HasSubstr("host      : node2\n"), HasSubstr("/logs/1/stderr.log"),
            HasSubstr("traceback : Signal 9 (SIGKILL) received by PID 4711\n    | line a\n    | line b\n"),
            HasSubstr("2026-01-01T00:00:00Z"), HasSubstr(": 137")));
}

TEST(FailureReportTest, OmitsUnknownFields) {
  rendezvous::JobOutcome outcome;
  outcome.exit_code = 3;
  outcome.reason = "too few nodes";
  EXPECT_THAT(FailureReport("x", outcome),
              AllOf(HasSubstr("too few nodes"), Not(HasSubstr("Root Cause")), Not(HasSubstr("Failures:"))));
  outcome.root_cause = rendezvous::WorkerFailure();
  outcome.root_cause->exit_code = 3;
  EXPECT_THAT(FailureReport("x", outcome), AllOf(HasSubstr("exitcode  : 3"), Not(HasSubstr("log_file"))));
}

/// Programs and people search a log for torchrun's words.
TEST(FailureReportTest, WordsAreTorchruns) {
  rendezvous::JobOutcome outcome;
  outcome.exit_code = 134;
  outcome.reason = "no restarts are allowed (max_restarts 0)";
  rendezvous::WorkerFailure& root = outcome.root_cause.emplace();
  root.host = "node1";
  root.rank = 1;
  root.local_rank = 1;
  root.pid = 4711;
  root.signal = 6;
  root.wall_time = "09:00:01";
  root.log_file = "/logs/1/stderr.log";
  const std::string thick(80, '='), thin(80, '-');
  EXPECT_EQ(FailureReport("train.py", outcome),
            absl::StrCat(thick, "\ntrain.py FAILED\n", thin, "\n",
                         "  reason    : no restarts are allowed (max_restarts 0)\n"
                         "  exit code : 134\n"
                         "Failures:\n"
                         "  <NO_OTHER_FAILURES>\n",
                         thin, "\n",
                         "Root Cause (first observed failure):\n"
                         "[0]:\n"
                         "  time      : 09:00:01\n"
                         "  host      : node1\n"
                         "  rank      : 1 (local_rank: 1)\n"
                         "  exitcode  : -6 (pid: 4711) killed by SIGABRT\n"
                         "  error_file: <N/A>\n"
                         "  log_file  : /logs/1/stderr.log\n"
                         "  traceback : Signal 6 (SIGABRT) received by PID 4711\n",
                         thick, "\n"));
  root.signal = 0;
  root.exit_code = 1;
  root.message = "ValueError: conv9\nTraceback ...";
  EXPECT_THAT(FailureReport("x", outcome), HasSubstr("  error_file: /logs/1/error.json\n"
                                                     "  log_file  : /logs/1/stderr.log\n"
                                                     "  traceback : ValueError: conv9\n"
                                                     "    | Traceback ...\n"));
}

TEST(FailureReportTest, ListsOtherFailedWorkers) {
  rendezvous::JobOutcome outcome;
  outcome.root_cause = rendezvous::WorkerFailure();
  const std::string box = FailureReport(
      "x", outcome,
      {{0, 0, 1, 0, "09:00:01", "ConnectionError: the peer is gone\nTraceback ...", 70},
       {3, 1, 0, 11, "09:00:02", "(no error was recorded; the last lines of standard error)\na\nlast", 73},
       {4, 2, 0, 6, "09:00:03", "", 74}});
  EXPECT_THAT(box, HasSubstr("Failures:\n"
                             "[1]:\n"
                             "  time      : 09:00:01\n"
                             "  rank      : 0 (local_rank: 0)\n"
                             "  exitcode  : 1 (pid: 70)\n"
                             "  traceback : ConnectionError: the peer is gone\n"
                             "[2]:\n"
                             "  time      : 09:00:02\n"
                             "  rank      : 3 (local_rank: 1)\n"
                             "  exitcode  : -11 (pid: 73) killed by SIGSEGV\n"
                             "  traceback : last\n"));
  EXPECT_THAT(box, HasSubstr("  traceback : Signal 6 (SIGABRT) received by PID 74\n-----"));
}

TEST(FailureReportTest, StoppedWorkersFollowTheCause) {
  rendezvous::JobOutcome outcome;
  outcome.root_cause = rendezvous::WorkerFailure();
  outcome.root_cause->message = "the cause";
  std::vector<OtherFailure> others;
  for (const int rank : {2, 0, 3}) others.push_back({rank, rank, 0, 15, "09:00:01", "Terminated", 70, true});
  const std::string box = FailureReport("x", outcome, others);
  EXPECT_THAT(box, HasSubstr("<NO_OTHER_FAILURES>"));
  EXPECT_THAT(
      box, HasSubstr("traceback : the cause\nStopped by mtrun after that: ranks 0, 2-3 of this node\n===="));
}

TEST(FailureReportTest, WorkersThatFailedAlikeAreListedOnce) {
  const std::string traceback = "(no error was recorded; the last lines of standard error)\nValueError: conv";
  rendezvous::JobOutcome outcome;
  rendezvous::WorkerFailure& root = outcome.root_cause.emplace();
  root.host = "node1";
  root.rank = root.local_rank = 3;
  root.exit_code = 1;
  root.message = traceback + "3";
  std::vector<OtherFailure> others;
  for (const int rank : {0, 1, 2, 4, 5})
    others.push_back({rank, rank, 1, 0, "09:00:01", absl::StrCat(traceback, rank)});
  for (const int rank : {6, 7}) others.push_back({rank, rank, 1, 0, "09:00:02", "OSError: gone"});
  const std::string box = FailureReport("x", outcome, others);
  EXPECT_THAT(box, HasSubstr("  rank      : 3 (local_rank: 3)\n"
                             "  alike     : ranks 0-2, 4-5 of this node\n"));
  EXPECT_THAT(box, HasSubstr("  rank      : 6 (local_rank: 6)\n"
                             "  alike     : ranks 6-7\n"
                             "  exitcode  : 1 (pid: 0)\n"
                             "  traceback : OSError: gone\n----"));
}

TEST(FailureReportTest, SizeIsBounded) {
  rendezvous::JobOutcome outcome;
  rendezvous::WorkerFailure& root = outcome.root_cause.emplace();
  root.host = "node1";
  root.exit_code = 1;
  root.log_file = "/logs/0/stderr.log";
  for (int i = 0; i < 500; ++i) absl::StrAppend(&root.message, "frame ", i, "\n");
  std::vector<OtherFailure> others;
  for (int rank = 1; rank < 64; ++rank)
    others.push_back({rank, rank, 1, 0, "09:00:01", std::string(static_cast<size_t>(rank), 'x')});
  const std::string box = FailureReport("x", outcome, others);
  EXPECT_THAT(box, HasSubstr("    | frame 499\n    | (489 more lines in /logs/0/error.json)\n===="));
  EXPECT_THAT(box, HasSubstr("  ranks 4-63: 60 more causes, in the log of each\n"));
  EXPECT_LE(std::count(box.begin(), box.end(), '\n'), 46) << box;
}

TEST(FailureReportTest, StoppedWorkerIsNotAFailure) {
  const auto obeyed = [](int exit_code, int signal, bool recorded) {
    return OnlyObeyed({.exit_code = exit_code, .signal = signal, .recorded = recorded});
  };
  EXPECT_TRUE(obeyed(0, 15, false));
  EXPECT_TRUE(obeyed(0, 9, false)) << "it did not stop in time";
  EXPECT_TRUE(obeyed(143, 0, false)) << "it has a handler, as our trainers have";
  EXPECT_FALSE(obeyed(0, 15, true)) << "it wrote down what had gone wrong";
  EXPECT_FALSE(obeyed(143, 0, true));
  EXPECT_FALSE(obeyed(137, 0, false));
  EXPECT_FALSE(obeyed(1, 0, false));
  EXPECT_FALSE(obeyed(0, 11, false));
}

}  // namespace
}  // namespace mtrun::launcher
