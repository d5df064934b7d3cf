// Unmodified DistributedDataParallel over Gloo on two nodes whose link or machine stops for some seconds: what
// torchrun carries through mtrun carries through, without a restart (--max_restarts 0). tools/test --full.
#include <chrono>
#include <thread>

#include "tests/e2e/cluster.h"
#include "tests/e2e/either.h"

namespace mtrun::e2e {
namespace {

class TorchrunLinks : public NetworkTest, public testing::WithParamInterface<Launcher> {
 protected:
  TorchrunLinks() : NetworkTest(2) {}

  void SetUp() override {
    if (!PeersHave("torch")) GTEST_SKIP() << "no Python with PyTorch: tools/setup --peers makes one";
    NetworkTest::SetUp();
  }
  std::vector<std::string> Command(const std::vector<std::string>& args) const override {
    if (GetParam() == Launcher::kMtrun) return NetworkTest::Command(Words({"--insecure"}, args));
    return Words({PeersPython(), "-m", "torch.distributed.run"}, args);
  }
  /// Starts the program on both nodes, which train when it returns.
  void Train() {
    support::Overlay environment = Environment();
    environment["PYTHON_EXEC"] = PeersPython();
    environment["GLOO_SOCKET_IFNAME"] = "eth0";
    for (const int node : {0, 1}) {
      const std::vector<std::string> args = {
          "--nnodes=2", "--max_restarts=0", "--rdzv_backend=c10d", "--rdzv_id=job",
          "--rdzv_endpoint=" + network_->Address(0) + ":29400", "--local_addr=" + network_->Address(node),
          // torchrun would look its own name up, which these nodes cannot.
          node == 0 ? "--rdzv_conf=is_host=1" : "--rdzv_conf=is_host=0",
          support::TestFile("support/toys/torch_link.py"), folder_.File("done")};
      nodes_[node] = std::make_unique<Program>(network_->On(node, Command(args)), environment);
    }
    for (const auto& node : nodes_) ASSERT_TRUE(node->WaitForLine("BEGAN attempt 0", 4 * kSoon)) << Texts();
  }
  void ExpectToEndWithoutARestart() {
    support::WriteText(folder_.File("done"), "");
    for (const auto& node : nodes_) {
      EXPECT_EQ(node->Wait(4 * kSoon), 0) << Texts();
      EXPECT_THAT(From(node->OutLines(), "BEGAN"), testing::SizeIs(1)) << Texts();
    }
  }
  void CutFor(int milliseconds) {
    ASSERT_TRUE(network_->SetLink(1, false).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ASSERT_TRUE(network_->SetLink(1, true).ok());
  }
  std::string Texts() const { return absl::StrCat(nodes_[0]->Text(), nodes_[1]->Text()); }

  std::unique_ptr<Program> nodes_[2];
};
MT_UNDER_EITHER(TorchrunLinks);

TEST_P(TorchrunLinks, LinkDownFor2500MsRestartsNothing) {
  Train();
  CutFor(2500);
  ExpectToEndWithoutARestart();
}

TEST_P(TorchrunLinks, LinkDownFor6SecondsRestartsNothing) {
  Train();
  CutFor(6000);
  ExpectToEndWithoutARestart();
}

}  // namespace
}  // namespace mtrun::e2e
