#include "launcher/core/regroup_line.h"

#include <gtest/gtest.h>

namespace mtrun::launcher {
namespace {

using std::chrono::milliseconds;

const TimePoint kStart{std::chrono::hours(1)};

TEST(RegroupLine, ReasonsInAFewWords) {
  EXPECT_EQ(ShortReason("node2 is lost: connection reset"), "node2 lost (killed)");
  EXPECT_EQ(ShortReason("node2 is lost: no heartbeat for 1.5 s"), "node2 lost (silent for 1.5 s)");
  EXPECT_EQ(ShortReason("node2 is lost: evicted by an operator"), "node2 lost (evicted)");
  EXPECT_EQ(ShortReason("node2 received SIGINT"), "node2 left (Ctrl-C)");
  EXPECT_EQ(ShortReason("node2 leaves: node2 received SIGTERM"), "node2 left (node2 received SIGTERM)");
  EXPECT_EQ(ShortReason("node3 joins"), "node3 joins");
  EXPECT_EQ(
      ShortReason("rank 1 (local 0, pid 100) on node2: killed by SIGKILL, log node2:/logs/0/stderr.log; "
                  "restart 1 of 3"),
      "rank 1 on node2: killed by SIGKILL");
  EXPECT_EQ(ShortReason(std::string(100, 'x')).size(), 48);
}

TEST(RegroupLine, ComesWithTheFirstStepOfTheNextGeneration) {
  RegroupLine line;
  EXPECT_FALSE(line.OnSteps(800, kStart)) << "nothing has happened";
  line.Ended("node2 is lost: connection reset", 3, kStart);
  EXPECT_FALSE(line.OnSteps(811, kStart)) << "of the old one";
  line.Entered(2);
  EXPECT_EQ(line.OnSteps(812, kStart + milliseconds(30)),
            "node2 lost (killed): 3 -> 2 workers, step 812 continues after 30 ms");
  EXPECT_FALSE(line.OnSteps(813, kStart + milliseconds(40))) << "once";
}

TEST(RegroupLine, AnotherEndMeanwhileIsStillOneLine) {
  RegroupLine line;
  line.Ended("node2 is lost: connection reset", 3, kStart);
  line.Ended("node3 is lost: connection reset", 2, kStart + milliseconds(20));
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
