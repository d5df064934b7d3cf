// Training whose nodes lose their service: nothing is committed twice, nothing is lost.
#include <signal.h>

#include "tests/e2e/training.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Nodes in namespaces, which share one run folder, and a service of its own on node 0.
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
  std::unique_ptr<Program> TrainOn(int node, int epochs) const {
    return On(node,
              Command(Words({"--nnodes", "1:1", "--nproc_per_node", "2", "--rdzv_endpoint",
                             network_->Address(0) + ":29400", "--insecure", "--rdzv_conf", "fence_timeout=3"},
                            Trainer("run", epochs, {"--checkpoint_steps", "10", "--log_every", "10"}))));
  }

  std::unique_ptr<support::Network> network_;
};

TEST_F(LeasedTrainingTest, AMemberThatIsCutOffAndTheSpareThatTakesOverNeverCommitTheSameSteps) {
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

TEST_F(LeasedTrainingTest, AServiceThatIsAwayForLongerThanALeasePausesTheRunAndNothingElse) {
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

}  // namespace
}  // namespace mtrun::e2e
