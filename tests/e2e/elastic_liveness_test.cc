// The liveness table: how soon a job continues after each fault, one row per test. Each test measures the
// time from the fault to the first step of the next generation and checks which processes survived. The
// service is a stand-alone one on node 0; members and spares are on the others.
#include "tests/e2e/liveness.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(LivenessTest, WorkerKilledOneToOneWithASpare) {
  Row([this] {
    SetJob("1:1", 0);
    Serve();
    Form({1}, {2});
    const double fault = Now();
    KillWorker(1);
    ExpectToGoOn("worker killed, 1:1 with a spare", fault, kProven, 1);
    EXPECT_EQ(WorkersOf(1, 2).size(), size_t{kPerNode}) << "a worker of it lives: the spare waits on";
  });
}

TEST_F(LivenessTest, WorkerKilledTwoToTwo) {
  Row([this] {
    SetJob("2:2", 0);
    Serve();
    Form({1, 2});
    const double fault = Now();
    KillWorker(2);
    ExpectToGoOn("worker killed, 2:2", fault, kProven, 2);
    ExpectSameWorkers(1, 1, 2);
  });
}

TEST_F(LivenessTest, WorkerKilledTwoToTwoOrdinaryProgram) {
  Row([this] {
    SetJob("2:2", 0, "ordinary");
    Serve();
    Form({1, 2});
    const double fault = Now();
    KillWorker(2);
    ExpectToGoOn("worker killed, 2:2, ordinary program", fault, kProven, 2);
  });
}

TEST_F(LivenessTest, WorkerKilledOneToThree) {
  Row([this] {
    SetJob("1:3", 0);
    Serve();
    Form({1, 2, 3});
    const double fault = Now();
    KillWorker(2);
    ExpectToGoOn("worker killed, 1:3", fault, kProven, 3);
    ExpectSameWorkers(1, 1, 2);
    ExpectSameWorkers(3, 1, 2);
  });
}

TEST_F(LivenessTest, AgentKilledOneToOneWithASpare) {
  Row([this] {
    SetJob("1:1", 0);
    Serve();
    Form({1}, {2});
    const double fault = Now();
    KillAgent(1);
    ExpectToGoOn("agent killed, 1:1 with a spare", fault, kProven, 1);
  });
}

TEST_F(LivenessTest, AgentKilledTwoToTwoWithASpare) {
  Row([this] {
    SetJob("2:2", 0);
    Serve();
    Form({1, 2}, {3});
    const double fault = Now();
    KillAgent(2);
    ExpectToGoOn("agent killed, 2:2 with a spare", fault, kProven, 2);
    ExpectSameWorkers(1, 1, 2);
  });
}

TEST_F(LivenessTest, AgentKilledOneToThree) {
  Row([this] {
    SetJob("1:3", 0);
    Serve();
    Form({1, 2, 3});
    const double fault = Now();
    KillAgent(2);
    ExpectToGoOn("agent killed, 1:3", fault, kProven, 2);
    ExpectSameWorkers(1, 1, 2);
    ExpectSameWorkers(3, 1, 2);
  });
}

TEST_F(LivenessTest, HostLosesPowerOneToThree) {
  Row([this] {
    SetJob("1:3", 0);
    Serve();
    Form({1, 2, 3});
    const double fault = Now();
    LosePower(2);
    ExpectToGoOn("host loses power, 1:3", fault, kSilent, 2);
    ExpectSameWorkers(1, 1, 2);
    ExpectSameWorkers(3, 1, 2);
  });
}

TEST_F(LivenessTest, HostLosesPowerTwoToTwoWithASpare) {
  Row([this] {
    SetJob("2:2", 0);
    Serve();
    Form({1, 2}, {3});
    const double fault = Now();
    LosePower(2);
    ExpectToGoOn("host loses power, 2:2 with a spare", fault, kSilent, 2);
    ExpectSameWorkers(1, 1, 2);
  });
}

TEST_F(LivenessTest, OnlyMembersHostLosesPowerASpareWaits) {
  Row([this] {
    SetJob("1:1", kFence);
    Serve();
    Form({1}, {2});
    const double fault = Now();
    LosePower(1);
    ExpectToGoOn("the only member's host loses power, a spare waits, S = 2 s", fault, kFenced, 1);
  });
}

TEST_F(LivenessTest, AllNodesReplacedAtOnce) {
  Row([this] {
    SetJob("2:2", kFence);
    Serve();
    Form({1, 2});
    const double fault = Now();
    for (const int node : {1, 2}) LosePower(node);
    for (const int node : {3, 4}) Run(node);
    ExpectToGoOn("all nodes lose power and are replaced, S = 2 s", fault, kFenced, 2);
  });
}

TEST_F(LivenessTest, AllNodesReplacedAtOnceWhoseHostsRefuse) {
  Row([this] {
    SetJob("2:2", 0);
    Serve();
    Form({1, 2});
    const double fault = Now();
    for (const int node : {1, 2}) KillAgent(node);
    for (const int node : {3, 4}) Run(node);
    ExpectToGoOn("all nodes replaced, their hosts refuse", fault, 2 * kProven, 2);
  });
}

TEST_F(LivenessTest, NodeDrained) {
  Row([this] {
    SetJob("1:3", 0);
    Serve();
    Form({1, 2, 3});
    const double fault = Now();
    mtrun_[2]->Signal(SIGTERM);
    ExpectToGoOn("node drained, 1:3", fault, kProven, 2);
    EXPECT_EQ(mtrun_[2]->Wait(), 0) << mtrun_[2]->Text();
    ExpectSameWorkers(1, 1, 2);
    ExpectSameWorkers(3, 1, 2);
  });
}

TEST_F(LivenessTest, AllMembersUplinkCutSparesBeyondIt) {
  Row([this] {
    SetJob("2:2", kFence);
    Serve();
    Form({1, 2}, {3, 4});
    const double fault = Now();
    ASSERT_TRUE(network_->SetUplink({1, 2}, false).ok());
    ExpectToGoOn("all members' uplink cut, spares beyond it, S = 2 s", fault, kFenced, 2);
    // The others see each other and hold nevertheless; they rejoin in the same processes.
    for (const int node : {1, 2})
      EXPECT_TRUE(mtrun_[node]->WaitForLine("the workers commit nothing until one does", kSoon)) << Texts();
    ASSERT_TRUE(network_->SetUplink({1, 2}, true).ok());
    for (const int node : {1, 2}) WaitToBeSpare(node);
    for (const int node : {3, 4}) KillAgent(node);
    const auto step = WaitForStep(Now(), 3);
    ASSERT_TRUE(step) << Texts();
    for (const int node : {1, 2}) ExpectSameWorkers(node, 1, step->generation);
  });
}

TEST_F(LivenessTest, ServiceDeadForAThirdOfS) {
  Row([this] {
    SetJob("2:2", 3);
    Serve();
    Form({1, 2});
    const double fault = Now();
    KillService();
    ASSERT_TRUE(WaitForStep(fault + 1, 1)) << Texts();
    Serve();
    ASSERT_TRUE(service_->WaitForLine("adopts generation 1", kSoon)) << service_->Text();
    ASSERT_TRUE(WaitForStep(Now() + 0.3, 1)) << Texts();
    Report("service dead for S/3: longest pause between steps, S = 3 s", LongestPause(fault), kProven);
    ExpectToEnd({1, 2});
    for (const int node : {1, 2}) EXPECT_THAT(mtrun_[node]->Text(), Not(HasSubstr("generation 1 ended")));
  });
}

TEST_F(LivenessTest, ServiceDeadForTwiceS) {
  Row([this] {
    SetJob("2:2", kFence);
    Serve();
    Form({1, 2});
    const double fault = Now();
    KillService();
    for (const int node : {1, 2})
      ASSERT_TRUE(mtrun_[node]->WaitForLine("the workers commit nothing until one does", kSoon)) << Texts();
    Rest(fault + 2 * kFence);
    const double paused = LastStep(fault) - fault;
    Report("service dead for 2 S: the last step before the pause, S = 2 s", paused, kFence);
    EXPECT_GT(paused, kFence / 4.0) << "a lease lasts since the last heartbeat";
    EXPECT_LT(paused, kFence + 1.0) << "nobody holds";
    const double back = Now();
    Serve();
    const auto step = WaitForStep(back, 1);
    ASSERT_TRUE(step) << Texts();
    Report("service dead for 2 S: it is back", step->at - back, kSilent);
    EXPECT_EQ(step->generation, 1);
    ExpectToEnd({1, 2});
    for (const int node : {1, 2}) {
      EXPECT_THAT(mtrun_[node]->Text(), HasSubstr("the rendezvous service answers again: the workers go on"));
      EXPECT_THAT(mtrun_[node]->Text(), Not(HasSubstr("generation 1 ended")));
    }
  });
}

// ---- The same with the default lease, 30 s.

TEST_F(LongLivenessTest, ServiceDeadForTenSeconds) {
  Row([this] {
    SetJob("2:2", 0);
    Serve();
    Form({1, 2});
    const double fault = Now();
    KillService();
    Rest(fault + 10);
    Serve();
    ASSERT_TRUE(service_->WaitForLine("adopts generation 1", kSoon)) << service_->Text();
    ASSERT_TRUE(WaitForStep(Now() + 0.3, 1)) << Texts();
    Report("service dead for 10 s: longest pause between steps", LongestPause(fault), kProven);
    ExpectToEnd({1, 2});
    for (const int node : {1, 2}) EXPECT_THAT(mtrun_[node]->Text(), Not(HasSubstr("generation 1 ended")));
  });
}

TEST_F(LongLivenessTest, ServiceDeadForAMinute) {
  Row([this] {
    constexpr double kLease = 30;
    SetJob("2:2", 0);
    Serve();
    Form({1, 2});
    const double fault = Now();
    KillService();
    Rest(fault + 60);
    const double paused = LastStep(fault) - fault;
    Report("service dead for 60 s: the last step before the pause", paused, kLease);
    EXPECT_GT(paused, kLease - 2) << "a lease lasts since the last heartbeat";
    for (const int node : {1, 2})
      EXPECT_THAT(mtrun_[node]->Text(), HasSubstr("the workers commit nothing until one does"));
    const double back = Now();
    Serve();
    const auto step = WaitForStep(back, 1);
    ASSERT_TRUE(step) << Texts();
    Report("service dead for 60 s: it is back", step->at - back, kSilent);
    EXPECT_EQ(step->generation, 1);
    ExpectToEnd({1, 2});
    for (const int node : {1, 2}) EXPECT_THAT(mtrun_[node]->Text(), Not(HasSubstr("generation 1 ended")));
  });
}

}  // namespace
}  // namespace mtrun::e2e
