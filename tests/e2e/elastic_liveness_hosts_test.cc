// Rows of the liveness table in which the service is lost with its host: an mtrun that is also a member.
#include "tests/e2e/liveness.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

// ---- With a list of endpoints.

TEST_F(LivenessTest, HostingAgentKilledWithAListTwoNodes) {
  Row([this] {
    SetJob("1:2", 0);
    HostAt({1, 2});
    Form({1, 2});
    const double fault = Now();
    KillAgent(1);
    ExpectToGoOn("hosting agent killed, with a list, 2 nodes", fault, kSilent, 1);
    ExpectSameWorkers(2, 1, 2);
  });
}

TEST_F(LivenessTest, HostingAgentKilledWithAListThreeNodes) {
  Row([this] {
    SetJob("1:3", 0);
    HostAt({1, 2});
    Form({1, 2, 3});
    const double fault = Now();
    KillAgent(1);
    ExpectToGoOn("hosting agent killed, with a list, 3 nodes", fault, kSilent, 2);
    for (const int node : {2, 3}) ExpectSameWorkers(node, 1, 2);
    EXPECT_THAT(mtrun_[2]->Text(), HasSubstr("node1 is lost: its agent is gone"));

    // The first host returns and finds where the job has moved.
    Run(1);
    const auto step = WaitForStep(Now(), 3);
    ASSERT_TRUE(step) << Texts();
    EXPECT_EQ(step->world, 3 * kPerNode);
    for (const int node : {2, 3}) ExpectSameWorkers(node, 1, 3);
    ExpectToEnd({1, 2, 3});
  });
}

TEST_F(LivenessTest, HostingNodesPowerLostWithAListThreeNodes) {
  Row([this] {
    SetJob("1:3", 0);
    HostAt({1, 2});
    Form({1, 2, 3});
    const double fault = Now();
    LosePower(1);
    ExpectToGoOn("hosting node's power lost, with a list, 3 nodes", fault, kMajority, 2);
    for (const int node : {2, 3}) ExpectSameWorkers(node, 1, 2);
  });
}

// ---- One endpoint.

TEST_F(LivenessTest, HostingAgentKilledWithoutAListTwoNodes) {
  Row([this] {
    SetJob("1:2", 0);
    HostAt({1});
    Form({1, 2});
    const double fault = Now();
    KillAgent(1);
    ExpectToGoOn("hosting agent killed, without a list, 2 nodes", fault, kSilent, 1);
    ExpectSameWorkers(2, 1, 2);
  });
}

TEST_F(LivenessTest, HostingAgentKilledWithoutAListThreeNodes) {
  Row([this] {
    SetJob("1:3", 0);
    HostAt({1});
    Form({1, 2, 3});
    const double fault = Now();
    KillAgent(1);
    ExpectToGoOn("hosting agent killed, without a list, 3 nodes", fault, kSilent, 2);
    for (const int node : {2, 3}) ExpectSameWorkers(node, 1, 2);
  });
}

TEST_F(LivenessTest, HostingNodesPowerLostTakeoverByMajorityThreeNodes) {
  Row([this] {
    SetJob("1:3", 0, "cooperative", ",takeover=majority");
    HostAt({1});
    Form({1, 2, 3});
    const double fault = Now();
    LosePower(1);
    ExpectToGoOn("hosting node's power lost, takeover=majority, 3 nodes", fault, kMajority, 2);
    for (const int node : {2, 3}) ExpectSameWorkers(node, 1, 2);
  });
}

/// The host may or may not continue. The others hold, and report where an operator can declare it dead.
TEST_F(LivenessTest, HostingNodesPowerLostWithoutAListThreeNodes) {
  Row([this] {
    SetJob("1:3", 0);
    HostAt({1});
    Form({1, 2, 3});
    LosePower(1);
    const auto advice = mtrun_[2]->WaitForLine("mtrun --evict node1 ", kSoon);
    ASSERT_TRUE(advice) << Texts();
    for (const Record& step : Records("commit")) EXPECT_EQ(step.generation, 1) << "nobody holds";
    const double said = Now();
    const auto [text, status] = Evict(2, "node1", Advised(*advice));
    EXPECT_EQ(status, 0) << text;
    ExpectToGoOn("hosting node's power lost, without a list: after --evict, 3 nodes", said, kMajority, 2);
    for (const int node : {2, 3}) ExpectSameWorkers(node, 1, 2);
  });
}

TEST_F(LivenessTest, ColdRestartEmbedded) {
  Row([this] {
    SetJob("2:2", 0);
    HostAt({1});
    const double first = TimeToStart({1, 2});
    KillAll();
    Report("cold restart, embedded (the bound: the first start and 0.5 s)", TimeToStart({1, 2}),
           first + kProven);
  });
}

TEST_F(LivenessTest, ColdRestartStandAlone) {
  Row([this] {
    SetJob("2:2", 0);
    Serve();
    const double first = TimeToStart({1, 2});
    KillAll();
    Serve();
    Report("cold restart, stand-alone (the bound: the first start and 0.5 s)", TimeToStart({1, 2}),
           first + kProven);
  });
}

}  // namespace
}  // namespace mtrun::e2e
