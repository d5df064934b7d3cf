#include "launcher/core/agent_messages.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

constexpr uint64_t kOwn = 7;

rendezvous::ServiceHost ServedAt(const std::string& service, uint64_t presence) {
  rendezvous::ServiceHost host;
  host.embedded = true;
  host.service = service;
  host.presence = {"10.0.0.2:7000", presence};
  return host;
}

TEST(AgentMessagesTest, FormationMessageNamesRanksMasterAndRestarts) {
  rendezvous::Assignment assignment;
  assignment.generation.number = 4;
  assignment.world_size = 3;
  assignment.master_address = "10.0.0.1";
  assignment.master_port = 4001;
  rendezvous::Member self;
  self.node_rank = 1;
  self.first_rank = 1;
  self.workers = 2;
  assignment.members = {{}, self};
  EXPECT_EQ(
      FormationMessage(assignment, self, 3),
      "generation 4 formed: 2 nodes, world size 3; this is node 1 with ranks 1-2; master 10.0.0.1:4001");
  assignment.restart_count = 2;
  EXPECT_TRUE(FormationMessage(assignment, self, 3).ends_with("; restart 2 of 3"));
  assignment.restart_count = 4;  // one was refunded
  EXPECT_TRUE(FormationMessage(assignment, self, 3).ends_with("; restart 4"));
}

TEST(AgentMessagesTest, FailureMessageNamesTheWorkerAndItsError) {
  WorkerSlots slots("node1");
  slots.Reset(2);
  slots.AssignRanks(2, 6);
  const WorkerExited exited{.local_rank = 1, .pid = 77, .exit_code = 3, .message = "ValueError"};
  rendezvous::WorkerFailure failure = MakeFailure(exited, slots, std::nullopt);
  EXPECT_EQ(failure.host, "node1");
  EXPECT_EQ(failure.rank, 7);
  EXPECT_EQ(failure.pid, 77);
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_EQ(failure.message, "ValueError");
  EXPECT_TRUE(failure.early);
  slots[1].said_ready = true;
  failure = MakeFailure(exited, slots, std::chrono::seconds(600));
  EXPECT_EQ(failure.message, "no progress for 10 min 00 s (--hang_timeout): killed by mtrun");
  EXPECT_FALSE(failure.early);
}

TEST(AgentMessagesTest, NodeThatServesNowNamesTheQuestion) {
  EXPECT_EQ(DescribeTakeover(ServedAt("", 1), ServedAt("10.0.0.2:36401", kOwn), kOwn, false),
            "this node serves the job's rendezvous now; ask it with: mtrun --status 10.0.0.2:36401");
  EXPECT_EQ(
      DescribeTakeover({}, ServedAt("10.0.0.2:36401", kOwn), kOwn, true),
      "this node serves the job's rendezvous now; ask it with: mtrun --insecure --status 10.0.0.2:36401");
}

TEST(AgentMessagesTest, OtherConnectionsAreNoTakeover) {
  const rendezvous::ServiceHost own = ServedAt("10.0.0.2:36401", kOwn);
  EXPECT_EQ(DescribeTakeover(own, own, kOwn, false), "") << "it was connected before";
  EXPECT_EQ(DescribeTakeover(ServedAt("", 1), ServedAt("10.0.0.3:36401", 8), kOwn, false), "");
  EXPECT_EQ(DescribeTakeover(own, ServedAt("", kOwn), kOwn, false), "") << "the endpoint";
  EXPECT_EQ(DescribeTakeover(ServedAt("", 1), ServedAt("10.0.0.3:1", 0), 0, false), "") << "no presence port";
}

}  // namespace
}  // namespace mtrun::launcher
