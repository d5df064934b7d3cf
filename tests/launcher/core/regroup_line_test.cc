#include "launcher/core/regroup_line.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "launcher/core/drain.h"
#include "rendezvous/reasons.h"

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;

const TimePoint kStart{std::chrono::hours(1)};

/// As rendezvous::JobMachine says it.
std::string Lost(const std::string& node, const std::string& why) {
  return absl::StrCat(node, rendezvous::kIsLost, why);
}
/// As it says what an agent of that host says.
std::string Leaves(const std::string& host, const Drain& drain) {
  return absl::StrCat(host, rendezvous::kLeaves, host, " ", drain.why());
}

TEST(RegroupLine, ReasonsInAFewWords) {
  EXPECT_EQ(ShortReason(Lost("node2", rendezvous::kAgentGone)), "node2 lost (killed)");
  EXPECT_EQ(ShortReason(Lost("node2", rendezvous::kStreamEnded)), "node2 lost (connection lost)");
  EXPECT_EQ(ShortReason(Lost("node2", rendezvous::kConnectionBroke)), "node2 lost (connection lost)");
  EXPECT_EQ(ShortReason(Lost("node2", rendezvous::kNotBack)), "node2 lost (did not come back)");
  EXPECT_EQ(ShortReason(Lost("node2", absl::StrCat(rendezvous::kSilentFor, "1.5 s"))),
            "node2 lost (silent for 1.5 s)");
  EXPECT_EQ(ShortReason(Lost("node2", absl::StrCat(rendezvous::kEvictedBy, "anna@login1"))),
            "node2 lost (evicted)");
  EXPECT_EQ(ShortReason(Lost("node2", "its offer was malformed")), "node2 lost (its offer was malformed)");
  EXPECT_EQ(ShortReason("node3 joins"), "node3 joins");
  EXPECT_EQ(
      ShortReason("rank 1 (local 0, pid 100) on node2: killed by SIGKILL, log node2:/logs/0/stderr.log; "
                  "restart 1 of 3"),
      "rank 1 on node2: killed by SIGKILL");
  EXPECT_EQ(ShortReason(std::string(100, 'x')).size(), 48);
  const std::string long_name(60, 'n');
  EXPECT_EQ(ShortReason(Lost(long_name, rendezvous::kAgentGone)), long_name + " lost (killed)");
}

TEST(RegroupLine, WhoLeavesLeftForASignalOrAPerson) {
  Drain drain;
  drain.Hear(SIGINT, kStart);
  EXPECT_EQ(ShortReason(Leaves("node2", drain)), "node2 left (Ctrl-C)");
  drain = {};
  drain.Hear(SIGTERM, kStart);
  EXPECT_EQ(ShortReason(Leaves("node2", drain)), "node2 left (SIGTERM)");
  drain = {};
  drain.Ask("anna@login1 (pid 4711, from 10.0.0.7:4242)", /*all_nodes=*/false);
  EXPECT_EQ(ShortReason(Leaves("node2", drain)), "node2 left (asked by anna@login1)");
}

TEST(RegroupLine, ComesWithTheFirstStepOfTheNextGeneration) {
  RegroupLine line;
  EXPECT_FALSE(line.OnSteps(800, kStart)) << "nothing has happened";
  line.Ended(Lost("node2", rendezvous::kAgentGone), 3, kStart);
  EXPECT_FALSE(line.OnSteps(811, kStart)) << "of the old one";
  line.Entered(2);
  EXPECT_EQ(line.OnSteps(812, kStart + milliseconds(30)),
            "node2 lost (killed): 3 -> 2 workers, step 812 continues after 30 ms");
  EXPECT_FALSE(line.OnSteps(813, kStart + milliseconds(40))) << "once";
}

TEST(RegroupLine, AnotherEndMeanwhileIsStillOneLine) {
  RegroupLine line;
  line.Ended(Lost("node2", rendezvous::kAgentGone), 3, kStart);
  line.Ended(Lost("node3", rendezvous::kAgentGone), 2, kStart + milliseconds(20));
  line.Entered(1);
  EXPECT_EQ(line.OnSteps(5, kStart + milliseconds(50)),
            "node3 lost (killed): 3 -> 1 worker, step 5 continues after 50 ms");
}

TEST(RegroupLine, TheSameNumberIsSaidOnce) {
  RegroupLine line;
  line.Ended("rank 1 (local 0, pid 100) on node2: exit code 1; restart 1 of 3", 2, kStart);
  line.Entered(2);
  EXPECT_EQ(line.OnSteps(7, kStart + milliseconds(500)),
            "rank 1 on node2: exit code 1: 2 workers, step 7 continues after 500 ms");
}

}  // namespace
}  // namespace mtrun::launcher
