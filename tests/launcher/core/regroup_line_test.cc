#include "launcher/core/regroup_line.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "launcher/core/drain.h"

namespace mtrun::launcher {
namespace {

using rendezvous::Cause;
using rendezvous::NodeLeft;
using rendezvous::NodeLost;
using How = NodeLost::How;
using std::chrono::milliseconds;

const TimePoint kStart{std::chrono::hours(1)};

Cause Lost(const std::string& node, const NodeLost& lost) { return {node + "-7-abc", node, lost}; }
Cause Killed(const std::string& node) { return Lost(node, {.how = How::kAgentGone}); }
Cause Leaves(const std::string& host, const Drain& drain) {
  return {host + "-7-abc", host, drain.cause(host)};
}
Cause Died(int exit_code, int signal) {
  rendezvous::WorkerFailure failure;
  failure.host = "node2";
  failure.rank = 1;
  failure.pid = 100;
  failure.exit_code = exit_code;
  failure.signal = signal;
  failure.log_file = "/logs/0/stderr.log";
  return {"node2-7-abc", "node2", rendezvous::WorkerDied{failure, 1, 0, 3, false}};
}

TEST(RegroupLine, ReasonsAreShort) {
  EXPECT_EQ(InAFewWords(Killed("node2")), "node2 lost (killed)");
  EXPECT_EQ(InAFewWords(Lost("node2", {.how = How::kStreamEnded})), "node2 lost (connection lost)");
  EXPECT_EQ(InAFewWords(Lost("node2", {.how = How::kConnectionBroke})), "node2 lost (connection lost)");
  EXPECT_EQ(InAFewWords(Lost("node2", {.how = How::kNotBack})), "node2 lost (did not come back)");
  EXPECT_EQ(InAFewWords(Lost("node2", {.how = How::kSilent, .time = milliseconds(1500)})),
            "node2 lost (silent for 1.5 s)");
  EXPECT_EQ(InAFewWords(Lost("node2", {.how = How::kEvicted, .by = {"anna", "login1", 4711}})),
            "node2 lost (evicted)");
  EXPECT_EQ(InAFewWords(Lost("node2", {"its offer was malformed"})), "node2 lost (its offer was malformed)");
  EXPECT_EQ(InAFewWords({"node3-7-abc", "node3", rendezvous::NodeJoined()}), "node3 joins");
  EXPECT_EQ(InAFewWords(Died(0, SIGKILL)), "rank 1 on node2: killed by SIGKILL");
  EXPECT_EQ(InAFewWords({"", "", rendezvous::NotServed{std::string(100, 'x')}}).size(), 48);
  const std::string long_name(60, 'n');
  EXPECT_EQ(InAFewWords(Killed(long_name)), long_name + " lost (killed)");
}

TEST(RegroupLine, LeavingNodeNamesItsSignalOrOperator) {
  Drain drain;
  drain.Hear(SIGINT, kStart);
  EXPECT_EQ(InAFewWords(Leaves("node2", drain)), "node2 left (Ctrl-C)");
  drain = {};
  drain.Hear(SIGTERM, kStart);
  EXPECT_EQ(InAFewWords(Leaves("node2", drain)), "node2 left (SIGTERM)");
  drain = {};
  drain.Ask({.why = NodeLeft::Why::kOperator, .by = {"anna", "login1", 4711, "10.0.0.7:4242"}},
            /*all_nodes=*/false);
  EXPECT_EQ(InAFewWords(Leaves("node2", drain)), "node2 left (asked by anna@login1)");
  drain = {};
  drain.Ask({.why = NodeLeft::Why::kPreemptFile}, /*all_nodes=*/false);
  EXPECT_EQ(InAFewWords(Leaves("node2", drain)), "node2 left (asked by --preempt_file)");
}

TEST(RegroupLine, IsPrintedWithTheFirstStepOfTheNextGeneration) {
  RegroupLine line;
  EXPECT_FALSE(line.OnSteps(800, kStart)) << "nothing has happened";
  line.Ended(Killed("node2"), 3, kStart);
  EXPECT_FALSE(line.OnSteps(811, kStart)) << "of the old one";
  line.Entered(2);
  EXPECT_EQ(line.OnSteps(812, kStart + milliseconds(30)),
            "node2 lost (killed): 3 -> 2 workers, step 812 continues after 30 ms");
  EXPECT_FALSE(line.OnSteps(813, kStart + milliseconds(40))) << "once";
}

TEST(RegroupLine, SecondEndBeforeTheNextStepIsStillOneLine) {
  RegroupLine line;
  line.Ended(Killed("node2"), 3, kStart);
  line.Ended(Killed("node3"), 2, kStart + milliseconds(20));
  line.Entered(1);
  EXPECT_EQ(line.OnSteps(5, kStart + milliseconds(50)),
            "node3 lost (killed): 3 -> 1 worker, step 5 continues after 50 ms");
}

TEST(RegroupLine, UnchangedWorkerCountIsPrintedOnce) {
  RegroupLine line;
  line.Ended(Died(1, 0), 2, kStart);
  line.Entered(2);
  EXPECT_EQ(line.OnSteps(7, kStart + milliseconds(500)),
            "rank 1 on node2: exit code 1: 2 workers, step 7 continues after 500 ms");
}

}  // namespace
}  // namespace mtrun::launcher
