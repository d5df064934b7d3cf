// A cluster of network namespaces: nodes join, leave, freeze and are cut off; services die and move.
#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

TEST_F(NetworkTest, CutCableAndFrozenAgentAreDetected) {
  const auto a = Start(0, "1:3", "", "20"), b = Start(1, "1:3", "", "20"), c = Start(2, "1:3", "", "20");
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3));
  ASSERT_TRUE(network_->SetLink(2, false).ok());
  ASSERT_TRUE(Met(*a, 2, 2) && Met(*b, 2, 2));
  EXPECT_THAT(a->Text(), HasSubstr("node2 is lost: no heartbeat"));
  EXPECT_EQ(PidIn(*a, 2), PidIn(*a, 1));

  ASSERT_TRUE(network_->SetLink(2, true).ok());
  ASSERT_TRUE(Met(*a, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3));
  EXPECT_EQ(PidIn(*c, 3), PidIn(*c, 1));  // it was alive all the time

  const pid_t agent = AgentOf(*b);
  ASSERT_GT(agent, 0);
  kill(agent, SIGSTOP);
  ASSERT_TRUE(Met(*a, 4, 2) && Met(*c, 4, 2));
  kill(agent, SIGCONT);
  ASSERT_TRUE(Met(*a, 5, 3) && Met(*b, 5, 3) && Met(*c, 5, 3));
  for (const auto& mtrun : {a.get(), b.get(), c.get()}) kill(PidIn(*mtrun, 5), SIGUSR1);
  for (const auto& mtrun : {a.get(), b.get(), c.get()}) EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
}

/// Nodes 1 and 2 cannot reach each other's addresses; both reach the service and node 0.
TEST_F(NetworkTest, UnreachablePairIsReportedAndOneOfItWaits) {
  const auto cut = [&](int on, int to) {
    Program program(network_->On(on, {"ip", "neighbour", "replace", network_->Address(to), "lladdr",
                                      "02:00:00:00:00:99", "nud", "permanent", "dev", "eth0"}),
                    Environment());
    return program.Wait() == 0;
  };
  ASSERT_TRUE(cut(1, 2) && cut(2, 1));
  toy_ = {"--max_restarts", "1", support::BinaryFolder() + "/../tests/toy_sums"};
  const auto a = Start(0, "2:3", "", "20"), b = Start(1, "2:3", "", "20"), c = Start(2, "2:3", "", "20");
  for (const auto& mtrun : {a.get(), b.get(), c.get()}) {
    EXPECT_TRUE(mtrun->WaitForLine("the workers of node1 and node2 do not reach each other", Seconds(20)))
        << mtrun->Text();
  }
  EXPECT_TRUE(c->WaitForLine("; the job continues without node2", kSoon)) << c->Text();
  EXPECT_TRUE(a->WaitForLine("SUM 3 in attempt 1", kSoon)) << a->Text();
  for (const auto& mtrun : {a.get(), b.get(), c.get()}) EXPECT_EQ(mtrun->Wait(kSoon), 0) << mtrun->Text();
}

class TakeoverTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    if (network_) endpoints_.push_back(network_->Address(1) + ":29400");
  }
};

TEST_F(TakeoverTest, ServiceDeathIsToleratedWhileNodesStopTheirWorkers) {
  toy_ = {"--max_restarts", "3", "--no_python",
          Script("slow.sh",
                 "trap 'sleep 3; exit 0' TERM\n"
                 "echo attempt $TORCHELASTIC_RESTART_COUNT with $WORLD_SIZE workers, pid $$\n"
                 "while :; do sleep 0.1; done\n")};
  const auto a = Start(0, "1:3", "", "20"), b = Start(1, "1:3", "", "20"), c = Start(2, "1:3", "", "20");
  for (const auto& mtrun : {a.get(), b.get()})
    ASSERT_TRUE(mtrun->WaitForLine("attempt 0 with 3 workers", kSoon)) << mtrun->Text();
  const auto line = c->WaitForLine("attempt 0 with 3 workers, pid ", kSoon);
  ASSERT_TRUE(line.has_value()) << c->Text();
  kill(std::stoi(line->substr(line->find("pid ") + 4)), SIGKILL);
  // No generation is running, and the next one has not been formed.
  ASSERT_TRUE(b->WaitForLine("generation 1 ended", kSoon)) << b->Text();
  a->Signal(SIGKILL);
  EXPECT_TRUE(b->WaitForLine("attempt 1 with 2 workers", kSoon)) << b->Text();
  EXPECT_TRUE(c->WaitForLine("attempt 1 with 2 workers", kSoon)) << c->Text();
}

TEST_F(TakeoverTest, HostCanLeaveWhileTheOthersStopTheirWorkersSlowly) {
  RunSlowToStop();
  const auto a = Start(0, "1:3", "", "20"), b = Start(1, "1:3", "", "20"), c = Start(2, "1:3", "", "20");
  ExpectOthersToGoOnWithout(*a, {b.get(), c.get()});
}

TEST_F(TakeoverTest, OneOfTwoNodesContinuesOnlyIfTheOtherIsKnownToBeDead) {
  const auto a = Start(0, "1:2"), b = Start(1, "1:2");
  ASSERT_TRUE(Met(*a, 1, 2) && Met(*b, 1, 2)) << a->Text() << b->Text();
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  // Neither node can know what the other does.
  EXPECT_TRUE(b->WaitForLine("holding: of generation 1 node0 is not here", kSoon)) << b->Text();
  EXPECT_TRUE(a->WaitForLine("holding: of generation 1 node1 is not here", kSoon)) << a->Text();
  a->Signal(SIGKILL);
  ASSERT_TRUE(a->Wait().has_value());
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  ASSERT_TRUE(Met(*b, 2, 1));
  EXPECT_EQ(PidIn(*b, 2), PidIn(*b, 1));
}

TEST_F(TakeoverTest, OperatorsEvictionDecidesWithoutAMajority) {
  endpoints_.push_back(network_->Address(2) + ":29400");
  const auto start = [&](int node) { return Start(node, "1:3", ",fence_timeout=never", "20"); };
  const auto a = start(0), b = start(1), c = start(2);
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3)) << a->Text() << b->Text() << c->Text();
  ASSERT_TRUE(network_->SetLink(0, false).ok() && network_->SetLink(1, false).ok());
  ASSERT_TRUE(c->WaitForLine("holding: of generation 1 node0, node1 are not here", kSoon)) << c->Text();
  EXPECT_THAT(c->Text(), HasSubstr("mtrun --evict NODE ENDPOINT"));
  const auto [one, one_status] = Evict(2, "node0");
  EXPECT_EQ(one_status, 0) << one;
  EXPECT_THAT(one, HasSubstr("holding: of generation 1 node1 is not here"));
  const auto [both, both_status] = Evict(2, "node1");
  EXPECT_EQ(both_status, 0) << both;
  EXPECT_THAT(both, HasSubstr("generation 2 runs on 1 node"));
  ASSERT_TRUE(Met(*c, 2, 1));

  // They return and only move over: nothing is left of their generation.
  ASSERT_TRUE(network_->SetLink(0, true).ok() && network_->SetLink(1, true).ok());
  for (const auto& mtrun : {a.get(), b.get(), c.get()}) {
    EXPECT_TRUE(mtrun->WaitForLines(" of 3 ", 2, kSoon)) << mtrun->Text();
    EXPECT_EQ(From(mtrun->OutLines(), "pid ").front(), From(mtrun->OutLines(), "pid ").back());
  }
}

TEST_F(TakeoverTest, ServiceOfAnEvictedMemberIsNotAwaited) {
  const auto a = Start(0, "1:1", ",fence_timeout=never");
  ASSERT_TRUE(Met(*a, 1, 1)) << a->Text();
  const auto b = Start(1, "1:1", ",fence_timeout=never");
  ASSERT_TRUE(b->WaitForLine("spare: 1 of at most 1 node runs", kSoon)) << b->Text();
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  ASSERT_TRUE(b->WaitForLine("holding: of generation 1 node0 is not here", kSoon)) << b->Text();
  const auto [done, status] = Evict(1, "node0");
  EXPECT_EQ(status, 0) << done;
  ASSERT_TRUE(Met(*b, 2, 1)) << b->Text();
  // It continued alone, which the operator had ruled out; the newer generation remains.
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  EXPECT_TRUE(a->WaitForLine("generation 1 ended: node0 was evicted ", kSoon)) << a->Text();
  EXPECT_TRUE(a->WaitForLine("spare: 1 of at most 1 node runs", kSoon)) << a->Text();
}

TEST_F(TakeoverTest, DisconnectedHostHoldsAndRejoinsTheOthers) {
  const auto a = Start(0, "1:3"), b = Start(1, "1:3"), c = Start(2, "1:3");
  ASSERT_TRUE(Met(*a, 1, 3) && Met(*b, 1, 3) && Met(*c, 1, 3)) << a->Text() << b->Text() << c->Text();
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  ASSERT_TRUE(Met(*b, 2, 2) && Met(*c, 2, 2));
  EXPECT_TRUE(a->WaitForLine("holding: of generation 1", kSoon)) << a->Text();
  ASSERT_TRUE(network_->SetLink(0, true).ok());
  ASSERT_TRUE(Met(*a, 3, 3) && Met(*b, 3, 3) && Met(*c, 3, 3));
  for (const auto& mtrun : {a.get(), b.get(), c.get()}) EXPECT_EQ(PidIn(*mtrun, 3), PidIn(*mtrun, 1));
}

}  // namespace
}  // namespace mtrun::e2e
