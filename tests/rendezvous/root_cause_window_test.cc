#include "rendezvous/job/root_cause_window.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

WorkerFailure FailureOf(const std::string& host, int exit_code, int64_t failed_at_ns = 0) {
  WorkerFailure failure;
  failure.host = host;
  failure.pid = 100;
  failure.exit_code = exit_code;
  failure.failed_at_ns = failed_at_ns;
  return failure;
}

RootCauseWindow OpenedByNode2() {
  return RootCauseWindow("node2", FailureOf("node2", 3, 2000), "no restarts are allowed", TimePoint());
}

TEST(RootCauseWindow, OpeningFailureIsTheCauseIfNoOtherIsReported) {
  const JobOutcome outcome = OpenedByNode2().Outcome();
  EXPECT_FALSE(outcome.success);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.root_cause->host, "node2");
  EXPECT_EQ(outcome.reason, "no restarts are allowed");
  EXPECT_EQ(OpenedByNode2().due(), TimePoint() + RootCauseWindow::kLength);
}

TEST(RootCauseWindow, EarlierFailureIsTheCause) {
  RootCauseWindow window = OpenedByNode2();
  window.AddReport("node1", FailureOf("node1", 7, 1000));
  window.AddReport("node3", FailureOf("node3", 9, 1500));
  const JobOutcome outcome = window.Outcome();
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_EQ(outcome.root_cause->host, "node1");
  EXPECT_THAT(outcome.reason, HasSubstr("after it rank 0 (local 0, pid 100) on node2: exit code 3"));
}

TEST(RootCauseWindow, FailureOfUnknownTimeDoesNotChangeTheCause) {
  RootCauseWindow window = OpenedByNode2();
  window.AddReport("node1", FailureOf("node1", 7, 0));
  EXPECT_EQ(window.Outcome().root_cause->host, "node2");
}

TEST(RootCauseWindow, IsCompleteWhenNoOtherMemberCanReport) {
  GenerationRecord generation = Running(1, {"node1", "node2", "node3"});
  Roster roster = Here({"node1", "node2", "node3"});
  for (const char* node_id : {"node1", "node2", "node3"})
    roster.Change(node_id, [](RosterNode& node) { node.confirmed = true, node.offered = false; });
  RootCauseWindow window = OpenedByNode2();
  EXPECT_FALSE(window.Complete(generation, roster));
  generation.Finish("node1");
  EXPECT_FALSE(window.Complete(generation, roster));
  RootCauseWindow heard = window;
  heard.AddReport("node3", FailureOf("node3", 1));
  EXPECT_TRUE(heard.Complete(generation, roster));
  Roster gone = roster, stopped = roster, away = roster;
  gone.Erase("node3");
  EXPECT_TRUE(window.Complete(generation, gone));
  stopped.Change("node3", [](RosterNode& node) { node.offered = true; });
  EXPECT_TRUE(window.Complete(generation, stopped));
  away.Close("node3", {"reset"}, TimePoint());
  EXPECT_TRUE(window.Complete(generation, away));
}

TEST(RootCauseWindow, IsAValue) {
  RootCauseWindow a = OpenedByNode2(), b = a;
  EXPECT_EQ(a, b);
  b.AddReport("node1", FailureOf("node1", 7));
  EXPECT_FALSE(a == b);
  EXPECT_THAT(b.Describe(TimePoint()), HasSubstr("root cause due +0.500 s"));
  EXPECT_THAT(b.Describe(TimePoint()), HasSubstr("heard {node1 node2}"));
}

}  // namespace
}  // namespace mtrun::rendezvous
