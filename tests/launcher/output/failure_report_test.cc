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

TEST(FailureReportTest, SaysWhatWhoWhereAndWhy) {
  rendezvous::JobOutcome outcome;
  outcome.exit_code = 137;
  outcome.reason = "no restart is left";
  outcome.root_cause = rendezvous::WorkerFailure{
      "node2", 3, 1, 4711, 0, 9, "/logs/1/stderr.log", "line a\nline b", "2026-01-01T00:00:00Z"};
  EXPECT_THAT(
      FailureReport("cnnA", outcome),
      AllOf(HasSubstr("cnnA FAILED"), HasSubstr("no restart is left"),
            HasSubstr("killed by SIGKILL (signal 9)"), HasSubstr("3 (local rank 1)"), HasSubstr("4711"),
            HasSubstr("node2"), HasSubstr("/logs/1/stderr.log"), HasSubstr("| line a\n    | line b\n"),
            HasSubstr("2026-01-01T00:00:00Z"), HasSubstr(": 137")));
}

TEST(FailureReportTest, LeavesOutWhatIsNotKnown) {
  rendezvous::JobOutcome outcome;
  outcome.exit_code = 3;
  outcome.reason = "too few nodes";
  EXPECT_THAT(FailureReport("x", outcome),
              AllOf(HasSubstr("too few nodes"), Not(HasSubstr("Root cause")), Not(HasSubstr("message"))));
  outcome.root_cause = rendezvous::WorkerFailure();
  outcome.root_cause->exit_code = 3;
  EXPECT_THAT(FailureReport("x", outcome), AllOf(HasSubstr("exit code 3"), Not(HasSubstr("log file"))));
}

TEST(FailureReportTest, ListsWhoElseFailed) {
  rendezvous::JobOutcome outcome;
  outcome.root_cause = rendezvous::WorkerFailure();
  EXPECT_THAT(FailureReport("x", outcome), Not(HasSubstr("Also failed")));
  const std::string box = FailureReport(
      "x", outcome,
      {{0, 0, 1, 0, "09:00:01", "ConnectionError: the peer is gone\nTraceback ..."},
       {3, 1, 0, 11, "09:00:02", "(no error was recorded; the last lines of standard error)\na\nlast"}});
  EXPECT_THAT(box, HasSubstr("Also failed on this node (later, or because of it):\n"
                             "  rank 0 (local rank 0): exit code 1, 09:00:01\n"
                             "    | ConnectionError: the peer is gone\n"
                             "  rank 3 (local rank 1): killed by SIGSEGV (signal 11), 09:00:02\n"
                             "    | last\n"));
}

TEST(FailureReportTest, WhoFailedAlikeIsNamedOnce) {
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
  EXPECT_THAT(box, HasSubstr("  rank        : 3 (local rank 3)\n"
                             "  failed alike: ranks 0-2, 4-5 of this node\n"));
  EXPECT_THAT(box, HasSubstr("Also failed on this node (later, or because of it):\n"
                             "  ranks 6-7: exit code 1, 09:00:02\n"
                             "    | OSError: gone\n===="));
}

TEST(FailureReportTest, IsBoundedWhateverFails) {
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
  EXPECT_THAT(box, HasSubstr("    | frame 499\n    | (489 more lines in /logs/0/error.json)\n"
                             "Also failed on this node (later, or because of it):\n"));
  EXPECT_THAT(box, HasSubstr("  ranks 6-63: 58 more causes, in the log of each\n"));
  const std::string also = box.substr(box.find("Also failed"));
  EXPECT_EQ(std::count(also.begin(), also.end(), '\n'), 12 + 1) << box;  // and the rule
  EXPECT_LE(std::count(box.begin(), box.end(), '\n'), 40) << box;
}

TEST(FailureReportTest, WhoWasStoppedIsNoFailure) {
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
