#include "launcher/core/agent_core.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/launcher/core/agent_core_inputs.h"

namespace mtrun::launcher {
namespace {

using testing::IsEmpty;

TEST(AgentCoreTest, JoiningFailsAfterTheJoinTimeout) {
  AgentConfig config = Config(1);
  config.join_timeout = std::chrono::seconds(5);
  AgentCore core(config, TimePoint());
  ASSERT_EQ(core.NextDeadline(), TimePoint(std::chrono::seconds(5)));
  const Effects effects = core.Step(Tick{}, *core.NextDeadline());
  EXPECT_EQ(std::get<Exit>(effects.back()).code, 1);
  EXPECT_THAT(Describe(effects), testing::HasSubstr("node0:29400"));
}

TEST(AgentCoreTest, RepeatedSignalWithinTheEchoTimeDoesNotKill) {
  AgentCore core(Config(1), TimePoint());
  core.Step(SessionConnected{}, TimePoint());
  core.Step(rendezvous::ServiceEvent(rendezvous::Assigned{AssignmentOf(1, 1, 0, 1)}), TimePoint());
  core.Step(SignalReceived{SIGTERM}, TimePoint(std::chrono::milliseconds(0)));
  EXPECT_THAT(core.Step(SignalReceived{SIGTERM}, TimePoint(std::chrono::milliseconds(450))), IsEmpty());
  const Effects effects = core.Step(SignalReceived{SIGTERM}, TimePoint(std::chrono::milliseconds(550)));
  EXPECT_THAT(effects, testing::Contains(Effect(SignalWorkers{SIGKILL})));
}

/// The node leaves as requested, even if the guardian kills its workers first.
TEST(AgentCoreTest, ExitByLeaseDoesNotEndADrain) {
  AgentConfig config = Config(2);
  config.fence_timeout = std::chrono::seconds(10);
  AgentCore core(config, TimePoint());
  const auto at = [](int second) { return TimePoint() + std::chrono::seconds(second); };
  core.Step(SessionConnected{}, at(0));
  core.Step(rendezvous::ServiceEvent(rendezvous::Assigned{AssignmentOf(1, 2, 0, 2)}), at(0));
  for (const int rank : {0, 1}) core.Step(WorkerSaid{rank, channel::Hello{.cooperative = true}}, at(0));
  core.Step(LeaseRenewed{at(10)}, at(0));
  core.Step(SignalReceived{SIGTERM}, at(1));
  ASSERT_TRUE(core.draining());
  for (const int rank : {0, 1})
    core.Step(WorkerExited{.local_rank = rank, .signal = SIGKILL, .by_lease = true}, at(10));
  core.Step(WorkerGone{0}, at(10));
  const Effects effects = core.Step(WorkerGone{1}, at(10));
  ASSERT_EQ(core.phase(), AgentCore::Phase::kEnded) << core.Describe();
  EXPECT_EQ(std::get<Exit>(effects.back()).code, 128 + SIGTERM);
}

TEST(AgentCoreTest, ProgramIsOrdinaryUntilAllItsWorkersCooperate) {
  AgentConfig trainer = Config(1);
  trainer.warm_up = true;
  EXPECT_FALSE(AgentCore(trainer, TimePoint()).ordinary());
  AgentCore core(Config(2), TimePoint());
  core.Step(SessionConnected{}, TimePoint());
  EXPECT_TRUE(core.ordinary());
  core.Step(rendezvous::ServiceEvent(rendezvous::Assigned(AssignmentOf(1, 1, 0, 2))), TimePoint());
  const auto hello = [&](int local_rank, bool cooperative) {
    core.Step(WorkerSaid{local_rank, channel::Hello{.cooperative = cooperative}}, TimePoint());
    return core.ordinary();
  };
  EXPECT_TRUE(hello(0, true)) << "the other one has said nothing yet";
  EXPECT_FALSE(hello(1, true));
  core.Step(WorkerExited{.local_rank = 0, .signal = SIGKILL}, TimePoint());
  core.Step(WorkerExited{.local_rank = 1, .signal = SIGKILL}, TimePoint());
  EXPECT_FALSE(core.ordinary()) << "its next workers will cooperate as well";
}

TEST(AgentCoreTest, WaitForNodesOfSlurmNamesTheWayToStartAlone) {
  const Event waiting = rendezvous::ServiceEvent(rendezvous::Waiting{"1 of 2 nodes"});
  AgentConfig config = Config(1);
  EXPECT_THAT(Describe(AgentCore(config, TimePoint()).Step(waiting, TimePoint())),
              testing::Not(testing::HasSubstr("--nnodes 1")));
  config.nodes_from_slurm = true;
  AgentCore core(config, TimePoint());
  core.Step(SessionConnected{}, TimePoint());
  EXPECT_THAT(Describe(core.Step(waiting, TimePoint())),
              testing::HasSubstr("1 of 2 nodes (the number of nodes is from Slurm; --nnodes 1 starts"));
  core.Step(rendezvous::ServiceEvent(rendezvous::Assigned{AssignmentOf(1, 1, 0, 1)}), TimePoint());
  EXPECT_THAT(Describe(core.Step(waiting, TimePoint())), testing::Not(testing::HasSubstr("--nnodes 1")));
}

}  // namespace
}  // namespace mtrun::launcher
