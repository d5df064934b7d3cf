// Two nodes train on a set served by a third: deaths cause waiting and never change the run.
#include <signal.h>

#include <filesystem>

#include "tests/e2e/training.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

class ServedTrainingTest : public TrainingRuns {
 protected:
  static constexpr int kServer = 2;

  void SetUp() override {
    TrainingRuns::SetUp();
    auto network = support::Network::Make(3);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
  }
  std::unique_ptr<Program> Serve() const {
    return std::make_unique<Program>(
        network_->On(kServer, {support::BinaryFolder() + "/mtdata", "serve", folder_.path(), "--listen",
                               network_->Address(kServer) + ":8443"}),
        Environment());
  }
  std::unique_ptr<Program> TrainOn(int node, int epochs, const std::vector<std::string>& more = {}) {
    support::Overlay environment = Environment();
    environment["MTRUN_PACE"] = "0.05";
    const std::string url = "https://" + network_->Address(kServer) + ":8443/data";
    const std::vector<std::string> served = {"--data", url, "--cache",
                                             folder_.File(absl::StrCat("cache", node))};
    return std::make_unique<Program>(
        network_->On(node, Command(Words({"--nnodes", "2", "--nproc_per_node", "2", "--max_restarts", "3",
                                          "--rdzv_endpoint", network_->Address(0) + ":29400"},
                                         Trainer("run", epochs, Words(served, more))))),
        environment);
  }
  /// Returns how often shards were sent.
  static int ShardsSent(Program& server) {
    int sent = 0;
    for (const std::string& line : server.ErrLines()) {
      const bool shard = line.find("/shard_") != std::string::npos;
      sent += shard && line.find("(incomplete)") == std::string::npos ? 1 : 0;
    }
    return sent;
  }

  void TwoNodesThatLoseAWorkerAndTheServer(int epochs, const std::vector<std::string>& more) {
    const auto first = TrainOn(0, epochs, more), second = TrainOn(1, epochs, more);
    for (Program* node : {first.get(), second.get()})
      ASSERT_TRUE(node->WaitForLine("the run is waiting for its data")) << node->Text();
    auto server = Serve();
    ASSERT_TRUE(first->WaitForLine("epoch 2/", Seconds(300))) << first->Text();
    EXPECT_EQ(ShardsSent(*server), 4) << server->Text();  // two splits on two nodes, once each
    server->Signal(SIGKILL);
    ASSERT_TRUE(server->Wait());
    const std::set<pid_t> workers = Workers();
    ASSERT_EQ(workers.size(), 4u);
    kill(*workers.rbegin(), SIGKILL);
    std::this_thread::sleep_for(std::chrono::seconds(5));
    server = Serve();
    EXPECT_EQ(first->Wait(Seconds(300)), 0) << first->Text();
    EXPECT_EQ(second->Wait(), 0) << second->Text();
    EXPECT_EQ(ShardsSent(*server), 0) << server->Text();
    EXPECT_THAT(support::ReadText(folder_.File("run") + "/metrics.jsonl"), HasSubstr("{\"data_wait\":"));
  }

  std::unique_ptr<support::Network> network_;
};

TEST_F(ServedTrainingTest, TwoNodesTrainFromAThirdDespiteWorkerAndServerDeaths) {
  constexpr int kEpochs = 20;
  TwoNodesThatLoseAWorkerAndTheServer(kEpochs, {});
  ExpectUndisturbed("run", kEpochs);
}

TEST_F(ServedTrainingTest, MissingDataSetEndsTheRunWithItsName) {
  const auto server = Serve();
  Program trainer(network_->On(0, {support::BinaryFolder() + "/cnnA", "--data",
                                   "https://" + network_->Address(kServer) + ":8443/nothing", "--cache",
                                   folder_.File("cache"), "--model_folder", folder_.File("run")}),
                  Environment());
  EXPECT_EQ(trainer.Wait(), 2);
  EXPECT_THAT(trainer.Text(), HasSubstr("/nothing/index.json does not exist"));
}

// The mission's run, as far as processors can compute it: resnet18 on two nodes.
TEST_F(ServedTrainingTest, LongResnet18OnTwoNodesFromAThird) {
  constexpr int kEpochs = 3;
  program_ = "resnet18";
  same_bits_ = false;
  const std::vector<std::string> more = {"--sync_bn", "--image_size", "64"};
  TwoNodesThatLoseAWorkerAndTheServer(kEpochs, more);
  ExpectUndisturbed("run", kEpochs, more);
}

}  // namespace
}  // namespace mtrun::e2e
