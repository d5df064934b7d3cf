// Training whose nodes lose their services: no step is committed twice, and no step is lost.
#include <signal.h>

#include "tests/e2e/training.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Nodes in namespaces that share a run folder.
class LeasedTrainingTest : public TrainingRuns {
 protected:
  void SetUp() override {
    TrainingRuns::SetUp();
    auto network = support::Network::Make(3);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
  }
  std::unique_ptr<Program> On(int node, const std::vector<std::string>& command) const {
    support::Overlay environment = Environment();
    environment["MTRUN_PACE"] = "0.05";
    return std::make_unique<Program>(network_->On(node, command), environment);
  }
  std::unique_ptr<Program> StartService() const {
    return On(0, {support::BinaryFolder() + "/mtrdzv", "--insecure", "--host", network_->Address(0), "--port",
                  "29400"});
  }
  std::unique_ptr<Program> TrainOn(int node, int epochs, const std::vector<std::string>& job) const {
    return On(node,
              Command(Words(Words({"--insecure"}, job),
                            Trainer("run", epochs, {"--checkpoint_steps", "10", "--log_every", "10"}))));
  }
  /// One node at a time, at the stand-alone service on node 0.
  std::unique_ptr<Program> TrainOn(int node, int epochs) const {
    return TrainOn(node, epochs,
                   {"--nnodes", "1:1", "--nproc_per_node", "2", "--rdzv_endpoint",
                    network_->Address(0) + ":29400", "--rdzv_conf", "fence_timeout=3"});
  }

  std::unique_ptr<support::Network> network_;
};

TEST_F(LeasedTrainingTest, DisconnectedMemberAndItsReplacementNeverCommitTheSameSteps) {
  constexpr int kEpochs = 60;
  const auto service = StartService();
  ASSERT_TRUE(service->WaitForLine("serving")) << service->Text();
  const auto member = TrainOn(1, kEpochs);
  ASSERT_TRUE(member->WaitForLine("epoch 2/")) << member->Text();
  const auto spare = TrainOn(2, kEpochs);
  ASSERT_TRUE(spare->WaitForLine("spare: 1 of at most 1 node runs")) << spare->Text();
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  ASSERT_TRUE(member->WaitForLine("no rendezvous service has answered within fence_timeout"))
      << member->Text();
  ASSERT_TRUE(spare->WaitForLine("resumed from")) << spare->Text();
  ASSERT_TRUE(spare->WaitForLine("epoch ")) << spare->Text();
  ASSERT_TRUE(network_->SetLink(1, true).ok());
  EXPECT_EQ(spare->Wait(), 0) << spare->Text();
  EXPECT_EQ(member->Wait(), 0) << member->Text();
  ExpectUndisturbed("run", kEpochs);
  ExpectExactlyOnce({"run"}, {"--no_late"});
}

TEST_F(LeasedTrainingTest, ServiceOutageBeyondALeaseOnlyPausesTheRun) {
  constexpr int kEpochs = 40;
  auto service = StartService();
  ASSERT_TRUE(service->WaitForLine("serving")) << service->Text();
  const auto member = TrainOn(1, kEpochs);
  ASSERT_TRUE(member->WaitForLine("epoch 2/")) << member->Text();
  const std::set<pid_t> before = Workers();
  service->Signal(SIGKILL);
  ASSERT_TRUE(member->WaitForLine("no rendezvous service has answered within fence_timeout"))
      << member->Text();
  service = StartService();
  EXPECT_EQ(member->Wait(), 0) << member->Text();
  EXPECT_THAT(member->Text(), Not(HasSubstr("generation 2")));
  EXPECT_EQ(before.size(), 2u);
  ExpectUndisturbed("run", kEpochs);
}

/// The service is on node 0. The leaving node holds its last step, and its grace is 30 s.
TEST_F(LeasedTrainingTest, NodeDrainedWhileDisconnectedStopsNoOtherNode) {
  constexpr int kEpochs = 60;
  const auto service = StartService();
  ASSERT_TRUE(service->WaitForLine("serving")) << service->Text();
  const auto start = [&](int node) {
    return TrainOn(node, kEpochs,
                   {"--nnodes", "1:2", "--rdzv_endpoint", network_->Address(0) + ":29400", "--rdzv_conf",
                    "fence_timeout=3,last_call_timeout=20"});
  };
  const auto stays = start(1), leaves = start(2);
  ASSERT_TRUE(stays->WaitForLine("world size 2") && stays->WaitForLine("epoch 2/")) << stays->Text();
  ASSERT_TRUE(network_->SetLink(2, false).ok());
  ASSERT_TRUE(leaves->WaitForLine("(fence_timeout): the workers commit nothing")) << leaves->Text();
  ASSERT_TRUE(stays->WaitForLine("generation 2 formed: 1 node")) << stays->Text();
  leaves->Signal(SIGTERM);
  ASSERT_TRUE(network_->SetLink(2, true).ok());
  EXPECT_EQ(leaves->Wait(Seconds(11)), 0) << leaves->Text();
  EXPECT_THAT(leaves->Text(), HasSubstr("continues on other nodes"));
  EXPECT_EQ(stays->Wait(), 0) << stays->Text();
  EXPECT_THAT(stays->Text(), Not(HasSubstr("generation 3")));
  ExpectUndisturbed("run", kEpochs);
  ExpectExactlyOnce({"run"}, {"--no_late"});
}

/// Nodes 0 and 1 host the services of a list. A restarted service cannot know whether the third node has
/// continued with others, and starts nothing without it.
TEST_F(LeasedTrainingTest, LongBothHostsOfAListRestartWhileTheThirdNodeIsDisconnected) {
  constexpr int kEpochs = 16;
  const std::string list = network_->Address(0) + ":29400," + network_->Address(1) + ":29400";
  const auto start = [&](int node) {
    return TrainOn(node, kEpochs,
                   {"--nnodes", "1:3", "--rdzv_endpoint", list, "--rdzv_conf",
                    "fence_timeout=3,last_call_timeout=20", "--node_rank", absl::StrCat(node)});
  };
  auto a = start(0), b = start(1), c = start(2);
  ASSERT_TRUE(a->WaitForLine("world size 3") && a->WaitForLine("epoch 2/")) << a->Text() << b->Text();
  ASSERT_TRUE(network_->SetLink(2, false).ok());
  for (const auto* host : {&a, &b}) (*host)->Signal(SIGKILL);
  for (const auto* host : {&a, &b}) ASSERT_TRUE((*host)->Wait().has_value());
  a = start(0), b = start(1);
  ASSERT_TRUE(a->WaitForLine(" node2 is not here and may still run elsewhere")) << a->Text() << b->Text();
  ASSERT_TRUE(c->WaitForLine("the workers commit nothing until one does")) << c->Text();
  const std::string ledger = folder_.File("run") + "/ledger.jsonl", held = support::ReadText(ledger);
  EXPECT_FALSE(a->WaitForLine(" formed: ", Seconds(2))) << a->Text();
  EXPECT_EQ(support::ReadText(ledger), held) << "steps without the third node";

  ASSERT_TRUE(network_->SetLink(2, true).ok());
  for (const auto* node : {&a, &b, &c}) EXPECT_EQ((*node)->Wait(), 0) << (*node)->Text();
  EXPECT_THAT(a->Text() + b->Text() + c->Text(), Not(HasSubstr("resumed from")))
      << "the third node has the newest state";
  ExpectUndisturbed("run", kEpochs);
  ExpectExactlyOnce({"run"}, {"--no_late"});
}

}  // namespace
}  // namespace mtrun::e2e
