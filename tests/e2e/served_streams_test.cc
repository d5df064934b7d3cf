// The mission's run: resnet18 on two nodes, with accumulation and synchronised batch norm, in the streamed
// order from a third node's server. The server dies during a transfer, with a worker, and is away for 5 s.
#include <signal.h>

#include <thread>

#include "datasets/cache/cache_layout.h"
#include "tests/e2e/arriving_training.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

class ServedStreamsTest : public ArrivingRuns {
 protected:
  ServedStreamsTest() : ArrivingRuns(/*scale=*/3) {}
  static constexpr int kServer = 2, kEpochs = 3;

  void SetUp() override {
    ArrivingRuns::SetUp();
    program_ = "resnet18";
    auto network = support::Network::Make(3);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
  }
  std::string ServerAddress() const { return network_->Address(kServer); }
  std::unique_ptr<Program> Serve() const {
    auto server =
        std::make_unique<Program>(network_->On(kServer, {support::BinaryFolder() + "/mtdata", "serve",
                                                         folder_.path(), "--listen", "127.0.0.1:8442"}),
                                  Environment());
    EXPECT_TRUE(server->WaitForLine("use one with")) << server->Text();
    return server;
  }
  /// The link to the server: slow enough for transfers to be observed.
  std::unique_ptr<Program> Link() const {
    return std::make_unique<Program>(network_->On(kServer, {support::BinaryFolder() + "/../tests/slow_link",
                                                            ServerAddress(), "8443", "8442"}),
                                     Environment());
  }
  std::string CacheOf(int node) const { return folder_.File(absl::StrCat("cache", node)); }
  /// Starts two workers, with six micro-batches per step over four workers.
  std::unique_ptr<Program> TrainOn(int node, const std::vector<std::string>& more) {
    support::Overlay environment = Environment();
    environment["MTRUN_PACE"] = "0.2";
    const std::vector<std::string> served =
        Words({"--data", "https://" + ServerAddress() + ":8443/data"}, SmallCache(CacheOf(node), 20));
    return std::make_unique<Program>(
        network_->On(node, Command(Words({"--nnodes", "2", "--nproc_per_node", "2", "--max_restarts", "3",
                                          "--rdzv_endpoint", network_->Address(0) + ":29400"},
                                         Trainer("run", kEpochs, Words(served, more))))),
        environment);
  }
  /// Returns the name of a partially received shard, or "".
  std::string Arriving() const {
    for (const int node : {0, 1}) {
      for (const datasets::CachedFile& file : datasets::CachedFiles(CacheOf(node))) {
        const size_t end = file.path.find(".part."), begin = file.path.rfind("/train/");
        if (end != std::string::npos && begin != std::string::npos && file.bytes > 0)
          return file.path.substr(begin, end - begin);
      }
    }
    return "";
  }

  void ADeathInTheMiddle(const std::vector<std::string>& more) {
    auto server = Serve();
    const auto link = Link();
    const auto first = TrainOn(0, more), second = TrainOn(1, more);
    const auto running = [&] { return !first->Wait(Seconds(0.002)) && !second->Wait(Seconds(0)); };
    std::string shard;
    while (StepsOf("run") < kStepsPerEpoch || (shard = Arriving()).empty())
      ASSERT_TRUE(running()) << first->Text() << second->Text();
    server->Signal(SIGKILL);
    ASSERT_TRUE(server->Wait());
    const int steps = StepsOf("run");
    const std::set<pid_t> workers = Workers();
    ASSERT_EQ(workers.size(), 4u);
    kill(*workers.rbegin(), SIGKILL);
    std::this_thread::sleep_for(std::chrono::seconds(5));  // the time is the test's subject
    EXPECT_LT(StepsOf("run"), kEpochs * kStepsPerEpoch) << "of which " << steps << " when the server died";
    server = Serve();
    EXPECT_EQ(first->Wait(Seconds(300)), 0) << first->Text();
    EXPECT_EQ(second->Wait(), 0) << second->Text();
    EXPECT_NE((first->Text() + second->Text()).find("the run is waiting for its data, nothing is lost: "),
              std::string::npos);
    // The transfer interrupted by the death is resumed.
    EXPECT_FALSE(From(server->ErrLines(), " 206 ").empty()) << shard << "\n" << server->Text();
  }

  const std::vector<std::string> recipe_ = Words(order_, {"--image_size", "64", "--sync_bn"});
  std::unique_ptr<support::Network> network_;
};

TEST_F(ServedStreamsTest, LongServerDeathDuringATransferChangesNoLoss) {
  same_bits_ = false;
  ADeathInTheMiddle(recipe_);
  ExpectUndisturbed("run", kEpochs, recipe_);
}

TEST_F(ServedStreamsTest, LongServerDeathDuringATransferLosesNoSampleInBfloat16) {
  precision_.clear();
  ADeathInTheMiddle(Words(recipe_, {"--amp", "bf16"}));
  ExpectExactlyOnce({"run"});
}

}  // namespace
}  // namespace mtrun::e2e
