// Training while unauthenticated clients flood the rendezvous: no step is lost, and no member is presumed
// dead.
#include <signal.h>

#include "tests/e2e/training.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Four nodes, the first of which hosts; the unauthenticated clients connect from a fifth. There are more of
/// them than the host may open files: each takes two files until it is authenticated, and unauthenticated
/// connections may use a quarter of the host's files.
class CrowdedTrainingTest : public TrainingRuns {
 protected:
  static constexpr int kNodes = 4, kOutside = kNodes, kFiles = 2048;

  void SetUp() override {
    TrainingRuns::SetUp();
    if (!HavePython()) GTEST_SKIP() << "there is no python3";
    auto network = support::Network::Make(kNodes + 1);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
  }
  std::unique_ptr<Program> TrainOn(int node, int epochs) const {
    support::Overlay environment = Environment();
    environment["MTRUN_PACE"] = "0.04";
    environment["HOME"] = folder_.path();  // all nodes share it, and so the token
    const std::vector<std::string> args = {"--nnodes",         absl::StrCat(kNodes),
                                           "--rdzv_endpoint",  network_->Address(0) + ":29400",
                                           "--node_rank",      absl::StrCat(node),
                                           "--nproc_per_node", "1",
                                           "--max_restarts",   "1"};
    const std::vector<std::string> limit = {"prlimit", absl::StrCat("--nofile=", kFiles)};
    return std::make_unique<Program>(
        network_->On(node, Words(limit, Command(Words(args, Trainer("run", epochs))))), environment);
  }
  /// Returns the worker of the hosting node.
  pid_t HostsWorker(const Program& host) const {
    const pid_t agent = ChildOf(ChildOf(host.pid()));
    for (const pid_t pid : Workers()) {
      const std::string status = support::ReadText(absl::StrCat("/proc/", pid, "/status"));
      if (status.find(absl::StrCat("PPid:\t", agent, "\n")) != std::string::npos) return pid;
    }
    return -1;
  }

  std::unique_ptr<support::Network> network_;
};

TEST_F(CrowdedTrainingTest, UnauthenticatedClientsCostNoStepAndNoRestart) {
  constexpr int kEpochs = 40;
  std::vector<std::unique_ptr<Program>> nodes;
  for (int node = 0; node < kNodes; ++node) nodes.push_back(TrainOn(node, kEpochs));
  ASSERT_TRUE(nodes[0]->WaitForLine("epoch 1/")) << nodes[0]->Text();
  Program strangers(network_->On(kOutside, {"python3", support::TestFile("support/toys/strangers.py"),
                                            network_->Address(0), "29400", absl::StrCat(kFiles / 4)}));
  ASSERT_TRUE(strangers.WaitForLine("crowded:")) << strangers.Text() << nodes[0]->Text();
  EXPECT_TRUE(nodes[0]->WaitForLine("too many connections from there")) << nodes[0]->Text();
  // Starting a process needs files of the host: pipes, logs, its connection.
  const pid_t worker = HostsWorker(*nodes[0]);
  ASSERT_GT(worker, 0) << "the strangers came too late\n" << nodes[0]->Text();
  kill(worker, SIGKILL);
  ASSERT_TRUE(nodes[0]->WaitForLine("generation 2 formed: 4 nodes")) << nodes[0]->Text();
  for (const auto& node : nodes) {
    EXPECT_EQ(node->Wait(), 0) << node->Text();
    for (const char* alarm : {"generation 3", "is lost", "main loop", "lost the rendezvous", "open files"})
      EXPECT_THAT(node->Text(), Not(HasSubstr(alarm)));
  }
  strangers.Signal(SIGKILL);
  ExpectUndisturbed("run", kEpochs);
}

}  // namespace
}  // namespace mtrun::e2e
