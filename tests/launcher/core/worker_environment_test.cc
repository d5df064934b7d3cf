#include "launcher/core/worker_environment.h"

#include "absl/strings/str_cat.h"
#include "base/data_key.h"
#include "base/own_launch.h"
#include "base/port_range.h"
#include "base/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Node 0 with two trainers, node 1 with one parameter server, node 2 with three trainers.
rendezvous::Assignment ThreeNodes() {
  rendezvous::Assignment assignment;
  assignment.generation = {4, 0xabc};
  assignment.members = {{"id0", "node0", "10.0.0.1", "trainer", 0, 0, 2},
                        {"id1", "node1", "10.0.0.2", "ps", 1, 2, 1},
                        {"id2", "node2", "10.0.0.3", "trainer", 2, 3, 3}};
  assignment.world_size = 6;
  assignment.master_address = "10.0.0.1";
  assignment.master_port = 4242;
  assignment.restart_count = 2;
  return assignment;
}

TEST(WorkerEnvironmentTest, RanksAreTakenFromTheAssignment) {
  const NodeContext node{.max_restarts = 3, .run_id = "job", .socket = "/s"};
  const WorkerEnv worker = MakeWorkerEnv(ThreeNodes(), 2, 1, node, "/e.json");
  WorkerEnv expected;
  expected.rank = 4;
  expected.local_rank = 1;
  expected.world_size = 6;
  expected.local_world_size = 3;
  expected.group_rank = 2;
  expected.group_world_size = 3;
  expected.role_rank = 3;
  expected.role_world_size = 5;
  expected.role_name = "trainer";
  expected.master_addr = "10.0.0.1";
  expected.master_port = 4242;
  expected.restart_count = 2;
  expected.max_restarts = 3;
  expected.run_id = "job";
  expected.error_file = "/e.json";
  expected.socket = "/s";
  expected.generation = channel::ToText({4, 0xabc});
  EXPECT_EQ(worker, expected);
  EXPECT_EQ(MakeWorkerEnv(ThreeNodes(), 1, 0, node, "").role_rank, 0);
  EXPECT_EQ(MakeWorkerEnv(ThreeNodes(), 1, 0, node, "").role_world_size, 1);
}

TEST(WorkerEnvironmentTest, OverlaysTheParentsEnvironment) {
  NodeContext node;
  node.flags = {{"MTRUN_CONFIGURED_WORLD", "8"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  node.parent = {{"HOME", "/h"}, {"RANK", "77"}, {"WORLD_SIZE", "1"}, {"PET_NNODES", "3"}};
  const EnvironmentMap environment = MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 1, node, ""), node);
  EXPECT_EQ(environment.at("HOME"), "/h");
  EXPECT_EQ(environment.at("PET_NNODES"), "3");
  EXPECT_EQ(environment.at("RANK"), "1");
  EXPECT_EQ(environment.at("WORLD_SIZE"), "6");
  EXPECT_EQ(environment.at("TORCHELASTIC_USE_AGENT_STORE"), "True");
  EXPECT_EQ(environment.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "1");
  EXPECT_EQ(environment.at("MTRUN_CONFIGURED_WORLD"), "8");
  EXPECT_FALSE(environment.contains("OMP_NUM_THREADS"));
}

TEST(WorkerEnvironmentTest, KeepsUserSettings) {
  NodeContext node;
  node.parent = {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}, {"OMP_NUM_THREADS", "8"}};
  node.set_omp = NeedsOmpThreads(node.parent, 4);
  EXPECT_FALSE(node.set_omp);
  const EnvironmentMap environment = MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 0, node, ""), node);
  EXPECT_EQ(environment.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "8");
}

TEST(WorkerEnvironmentTest, WorkersGetNeitherTokenNorDataKey) {
  const std::string token = MakeToken();
  NodeContext node;
  node.parent = {{kTokenVariable, token + "\n"}, {kDataKeyVariable, "of the user"}};
  const WorkerEnv worker = MakeWorkerEnv(ThreeNodes(), 0, 0, node, "");
  const EnvironmentMap environment = MakeEnvironment(worker, node);
  for (const char* name : {kTokenVariable, kDataKeyVariable})
    EXPECT_FALSE(environment.contains(name)) << name;
  for (const auto& [name, value] : environment) EXPECT_THAT(value, Not(HasSubstr(token))) << name;
}

/// If an mtrun runs in a worker, its workers belong to its own job.
TEST(WorkerEnvironmentTest, VariablesOfAnOuterJobAreRemoved) {
  NodeContext outer{.socket = "/outer", .lease = 23, .flags = {{kPortRangeVariable, "4000-4100"}}};
  NodeContext node{.socket = "/s"};
  node.parent = MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 0, outer, "/e.json"), outer);
  ASSERT_EQ(node.parent.at("MTRUN_LEASE"), "23");
  ASSERT_EQ(node.parent.at(kPortRangeVariable), "4000-4100");
  const EnvironmentMap inner = MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 0, node, ""), node);
  EXPECT_EQ(inner.at("MTRUN_SOCKET"), "/s");
  for (const char* name : {"MTRUN_LEASE", kPortRangeVariable}) EXPECT_FALSE(inner.contains(name)) << name;
  node.lease = 5;
  EXPECT_EQ(MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 0, node, ""), node).at("MTRUN_LEASE"), "5");
}

TEST(WorkerEnvironmentTest, WorkerOfTheSameStepIsRecognised) {
  NodeContext node{.run_id = "job", .socket = "@s"};
  node.parent = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"MTRUN_STEP", "6.1"}, {"MTRUN_WORKER", "8/9 x"}};
  EnvironmentMap environment = MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 1, node, ""), node);
  EXPECT_EQ(environment.at("MTRUN_STEP"), "7.0");
  EXPECT_EQ(environment.at("MTRUN_WORKER"), absl::StrCat("1/", environment.at("WORLD_SIZE"), " job"));
  const EnvironmentMap before = environment;
  RemoveOtherJobs(environment, SocketOwner::kAbove);
  EXPECT_EQ(environment, before);
}

TEST(WorkerEnvironmentTest, SeveralWorkersGetOneThreadEach) {
  EXPECT_TRUE(NeedsOmpThreads({}, 2));
  EXPECT_FALSE(NeedsOmpThreads({}, 1));
  NodeContext node;
  node.set_omp = true;
  EXPECT_EQ(MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 0, node, ""), node).at("OMP_NUM_THREADS"), "1");
}

TEST(WorkerEnvironmentTest, VirtualLocalRanksSeeTheirOwnDevice) {
  NodeContext node{.virtual_local_rank = true, .timer_file = "/timer"};
  node.parent = {{"CUDA_VISIBLE_DEVICES", "4, 6"}};
  const EnvironmentMap environment = MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 1, node, ""), node);
  EXPECT_EQ(environment.at("LOCAL_RANK"), "0");
  EXPECT_EQ(environment.at("RANK"), "1");
  EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(environment.at("CUDA_VISIBLE_DEVICES"), "6");
  EXPECT_EQ(environment.at("TORCHELASTIC_TIMER_FILE"), "/timer");
  EXPECT_FALSE(environment.contains("HIP_VISIBLE_DEVICES"));
  EXPECT_EQ(DeviceOf({}, 3), "3");
  EXPECT_EQ(DeviceOf(node.parent, 2), "");
}

/// ROCm reads HIP_VISIBLE_DEVICES first, so workers get their device in both.
TEST(WorkerEnvironmentTest, VirtualLocalRanksFollowHip) {
  NodeContext node{.virtual_local_rank = true};
  node.parent = {{"CUDA_VISIBLE_DEVICES", "4,6"}, {"HIP_VISIBLE_DEVICES", "1,3"}};
  const EnvironmentMap environment = MakeEnvironment(MakeWorkerEnv(ThreeNodes(), 0, 1, node, ""), node);
  EXPECT_EQ(environment.at("HIP_VISIBLE_DEVICES"), "3");
  EXPECT_EQ(environment.at("CUDA_VISIBLE_DEVICES"), "3");
  EXPECT_EQ(DeviceOf({{"CUDA_VISIBLE_DEVICES", "4,6"}, {"HIP_VISIBLE_DEVICES", ""}}, 1), "6");
}

TEST(WorkerEnvironmentTest, ChannelAssignmentHasTheSameContent) {
  const channel::Assignment news = MakeChannelAssignment(ThreeNodes(), 2, 0, 3);
  EXPECT_EQ(news.rank, 3);
  EXPECT_EQ(news.world_size, 6);
  EXPECT_EQ(news.local_world_size, 3);
  EXPECT_EQ(news.node_rank, 2);
  EXPECT_THAT(news.peers,
              ElementsAre(channel::Peer{"node0", "10.0.0.1", 0, 2}, channel::Peer{"node1", "10.0.0.2", 2, 1},
                          channel::Peer{"node2", "10.0.0.3", 3, 3}));
}

/// Each machine has its own name for the interface to a link-local address.
TEST(WorkerEnvironmentTest, LinkLocalAddressesGetTheZoneOfThisNode) {
  rendezvous::Assignment assignment = ThreeNodes();
  assignment.master_address = assignment.members[0].address = "fe80::1";
  EXPECT_EQ(MakeWorkerEnv(assignment, 1, 0, {.zone = "lan0"}, "").master_addr, "fe80::1%lan0");
  const channel::Assignment news = MakeChannelAssignment(assignment, 1, 0, 3, "lan0");
  EXPECT_EQ(news.peers[0].address, "fe80::1%lan0");
  EXPECT_EQ(news.peers[1].address, "10.0.0.2");
}

TEST(WorkerEnvironmentTest, LibrariesUseTheAddresssInterfaceUnlessSet) {
  NodeContext node{.interface = "eth1", .for_nccl = true, .parent = {{"GLOO_SOCKET_IFNAME", "eth9"}}};
  const WorkerEnv worker = MakeWorkerEnv(ThreeNodes(), 0, 0, node, "");
  EXPECT_EQ(MakeEnvironment(worker, node).at("NCCL_SOCKET_IFNAME"), "=eth1");
  EXPECT_EQ(MakeEnvironment(worker, node).at("GLOO_SOCKET_IFNAME"), "eth9");
  node.parent = {{"NCCL_SOCKET_IFNAME", "ib"}};
  EXPECT_EQ(MakeEnvironment(worker, node).at("NCCL_SOCKET_IFNAME"), "ib");
  EXPECT_EQ(MakeEnvironment(worker, node).at("GLOO_SOCKET_IFNAME"), "eth1");
  node.for_nccl = false;
  node.parent.clear();
  EXPECT_FALSE(MakeEnvironment(worker, node).contains("NCCL_SOCKET_IFNAME"));
  EXPECT_EQ(MakeEnvironment(worker, node).at("GLOO_SOCKET_IFNAME"), "eth1");
  node.interface = "";
  EXPECT_FALSE(MakeEnvironment(worker, node).contains("GLOO_SOCKET_IFNAME"));
}

}  // namespace
}  // namespace mtrun::launcher
