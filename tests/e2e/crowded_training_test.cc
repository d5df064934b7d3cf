// Training whose rendezvous is beset by strangers: no step is lost, nobody is taken for dead.
#include "tests/e2e/training.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Four nodes, the first of which hosts; the strangers come from a fifth.
class CrowdedTrainingTest : public TrainingRuns {
 protected:
  static constexpr int kNodes = 4, kOutside = kNodes;

  void SetUp() override {
    TrainingRuns::SetUp();
    if (!HavePython()) GTEST_SKIP() << "there is no python3";
    auto network = support::Network::Make(kNodes + 1);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
  }
  std::unique_ptr<Program> TrainOn(int node, int epochs) const {
    support::Overlay environment = Environment();
    environment["MTRUN_PACE"] = "0.03";
    environment["HOME"] = folder_.path();  // all nodes share it, and so the token
    const std::vector<std::string> args = {
        "--nnodes",    absl::StrCat(kNodes), "--rdzv_endpoint",  network_->Address(0) + ":29400",
        "--node_rank", absl::StrCat(node),   "--nproc_per_node", "1"};
    return std::make_unique<Program>(network_->On(node, Command(Words(args, Trainer("run", epochs)))),
                                     environment);
  }

  std::unique_ptr<support::Network> network_;
};

TEST_F(CrowdedTrainingTest, StrangersCostNoStepAndRaiseNoAlarm) {
  constexpr int kEpochs = 30;
  std::vector<std::unique_ptr<Program>> nodes;
  for (int node = 0; node < kNodes; ++node) nodes.push_back(TrainOn(node, kEpochs));
  ASSERT_TRUE(nodes[0]->WaitForLine("epoch 1/")) << nodes[0]->Text();
  Program strangers(network_->On(
      kOutside, {"python3", support::TestFile("support/toys/strangers.py"), network_->Address(0), "29400"}));
  ASSERT_TRUE(strangers.WaitForLine("are here")) << strangers.Text() << nodes[0]->Text();
  EXPECT_FALSE(nodes[0]->WaitForLine("best accuracy", Seconds(0))) << "the strangers came too late";
  for (const auto& node : nodes) {
    EXPECT_EQ(node->Wait(), 0) << node->Text();
    for (const char* alarm : {"generation 2", "is lost", "main loop", "lost the rendezvous"})
      EXPECT_THAT(node->Text(), Not(HasSubstr(alarm)));
  }
  EXPECT_THAT(nodes[0]->Text(), HasSubstr("turned away"));
  strangers.Signal(SIGKILL);
  ExpectUndisturbed("run", kEpochs);
}

}  // namespace
}  // namespace mtrun::e2e
