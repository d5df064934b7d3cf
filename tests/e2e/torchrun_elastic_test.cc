// Checks of torchrun's own tests on nodes that join, leave and return, numbered as in docs/torchrun_tests.md.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/posix.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/either.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Workers print their rank and run until the file "go" exists, or fail if "peer_lost" exists.
template <typename Base>
class ElasticTest : public Base {
 protected:
  std::string Script() const {
    return Base::Script(
        "wait.sh", absl::StrCat("echo world $WORLD_SIZE restarts $TORCHELASTIC_RESTART_COUNT pid $$\n"
                                "while [ ! -e ",
                                Base::folder_.File("go"), " ]; do\n[ -e ", Base::folder_.File("peer_lost"),
                                " ] && echo failing && exit 1\nsleep 0.05\ndone\n"));
  }
  void Go() const { support::WriteText(Base::folder_.File("go"), ""); }
  std::unique_ptr<Program> Node(const std::string& nnodes, const std::string& conf,
                                const std::vector<std::string>& more = {},
                                const support::Overlay& overlay = {}) const {
    return Base::Agent(nnodes, Words(Words({"--rdzv_conf", conf}, more), {"--no_python", Script()}), overlay);
  }
};

// ---- shared with torchrun ----

class Elastic : public ElasticTest<EitherTest> {
 protected:
  /// Settings with which torchrun detects a lost node within seconds; it takes whole seconds only.
  std::string Conf() const {
    return torchrun() ? "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=4"
                      : "last_call_timeout=0.1";
  }
  std::unique_ptr<Program> Node(const std::string& nnodes, const std::vector<std::string>& more = {},
                                const support::Overlay& overlay = {}) const {
    support::Overlay environment = overlay;
    // Otherwise torchrun 2.11 sends no store to a node that joins a later round, which then waits forever.
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1";
    return ElasticTest::Node(nnodes, Conf(), more, environment);
  }

  /// Starts the first node, with the rendezvous on it.
  std::unique_ptr<Program> FirstNode(const std::string& nnodes,
                                     const std::vector<std::string>& more = {}) const {
    auto node = Node(nnodes, more);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint_.substr(endpoint_.find(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 600; ++i) {
      const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return node;
      usleep(100'000);
    }
    ADD_FAILURE() << "nobody listens at " << endpoint_ << "\n" << node->Text();
    return node;
  }

  /// Loses the machine of `node`. torchrun's death leaves its workers behind, so they are killed too.
  void Lose(Program& node) const {
    const auto lines = From(node.OutLines(), "pid ");
    node.Signal(SIGKILL);
    if (!torchrun()) return;
    for (const std::string& line : lines) kill(std::stoi(line.substr(4)), SIGKILL);
  }

  /// Makes the survivors' collectives fail: otherwise torchrun does not detect a lost node.
  void PeerIsLostFor(Program& node) const {
    if (!torchrun()) return;
    support::WriteText(folder_.File("peer_lost"), "");
    EXPECT_TRUE(node.WaitForLine("failing")) << node.Text();
    std::filesystem::remove(folder_.File("peer_lost"));
  }

  /// torchrun's restart after a failure uses the budget.
  std::string Restarts() const { return torchrun() ? " restarts 1" : " restarts 0"; }
};
MT_UNDER_EITHER(Elastic);

TEST_P(Elastic, Behaviour29And35And51JoiningNodeIsAdmittedAndUsesNoBudget) {
  const auto first = Node("1:2", {"--max_restarts=1"});
  ASSERT_TRUE(first->WaitForLine("world 1 restarts 0")) << first->Text();
  const auto second = Node("1:2", {"--max_restarts=1"});
  ASSERT_TRUE(first->WaitForLine("world 2 restarts 0")) << first->Text();
  ASSERT_TRUE(second->WaitForLine("world 2 restarts 0")) << second->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_P(Elastic, Behaviour32KilledAgentRejoinsAfterARestart) {
  const auto first = FirstNode("2", {"--max_restarts=2"});
  auto second = Node("2", {"--max_restarts=2"});
  ASSERT_TRUE(first->WaitForLine("world 2") && second->WaitForLine("world 2")) << first->Text();
  Lose(*second);
  second = Node("2", {"--max_restarts=2"});
  ASSERT_TRUE(first->WaitForLines("world 2 restarts 0", 2)) << first->Text();
  ASSERT_TRUE(second->WaitForLine("world 2")) << second->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_P(Elastic, Behaviour33And55SurvivorOfALostNodeFinishes) {
  const auto first = FirstNode("1:2", {"--max_restarts=2"});
  const auto second = Node("1:2", {"--max_restarts=2"});
  ASSERT_TRUE(first->WaitForLine("world 2") && second->WaitForLine("world 2")) << first->Text();
  const size_t alone = From(first->OutLines(), "world 1").size();
  Lose(*second);
  PeerIsLostFor(*first);
  ASSERT_TRUE(first->WaitForLines("world 1" + Restarts(), torchrun() ? 1 : alone + 1)) << first->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
}

TEST_P(Elastic, Behaviour49And50SpareWaitsAndReplacesALostNode) {
  const auto first = FirstNode("2", {"--max_restarts=2"});
  const auto second = Node("2", {"--max_restarts=2"});
  ASSERT_TRUE(first->WaitForLine("world 2") && second->WaitForLine("world 2")) << first->Text();
  const auto spare = Node("2", {"--max_restarts=2"}, {{"LOGLEVEL", "INFO"}});
  ASSERT_TRUE(spare->WaitForLine(torchrun() ? "Rendezvous'ing worker group" : "spare")) << spare->Text();
  if (torchrun()) sleep(2);  // it prints nothing when it joins the list of spares
  EXPECT_THAT(spare->Text(), Not(HasSubstr("world 2")));
  Lose(*second);
  ASSERT_TRUE(spare->WaitForLine("world 2 restarts 0")) << spare->Text();
  ASSERT_TRUE(first->WaitForLines("world 2", 2)) << first->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(spare->Wait(), 0) << spare->Text();
}

// ---- mtrun's own ----

class TorchrunElastic : public ElasticTest<LauncherTest> {
 protected:
  std::unique_ptr<Program> Node(const std::string& nnodes, const std::vector<std::string>& more = {}) const {
    return ElasticTest::Node(nnodes, "last_call_timeout=0.1", more);
  }
};

TEST_F(TorchrunElastic, Behaviour29And35JoiningNodeLosesNoLogs) {
  const auto first = Node("1:2", {"--max_restarts=1", "--log_dir", folder_.File("logs")});
  ASSERT_TRUE(first->WaitForLine("world 1 restarts 0")) << first->Text();
  const auto second = Node("1:2", {"--max_restarts=1"});
  ASSERT_TRUE(first->WaitForLine("world 2 restarts 0", kSoon)) << first->Text();
  ASSERT_TRUE(second->WaitForLine("world 2 restarts 0", kSoon)) << second->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  // The first generation's logs still exist, next to the second's.
  const std::string run = RunFolder("logs");
  EXPECT_THAT(support::ReadText(run + "/attempt_0/0/stdout.log"), StartsWith("world 1 restarts 0 "));
  EXPECT_THAT(support::ReadText(run + "/attempt_0.g2/0/stdout.log"), StartsWith("world 2 restarts 0 "));
}

TEST_F(TorchrunElastic, Behaviour33LostNodeIsDetectedQuickly) {
  // These workers do not communicate: only the launcher can detect the loss.
  const auto first = Node("1:2", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  const auto second = Node("1:2", {"--node_rank=1"});
  ASSERT_TRUE(first->WaitForLine("world 2", kSoon)) << first->Text();
  second->Signal(SIGKILL);
  const size_t before = From(first->OutLines(), "world 1").size();
  ASSERT_TRUE(first->WaitForLines("world 1 restarts 0", before + 1, kSoon)) << first->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
}

TEST_F(TorchrunElastic, Behaviour40And54StoppedNodeLeavesTheJobOpen) {
  const auto first = Node("1:2", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  auto second = Node("1:2", {"--node_rank=1"});
  ASSERT_TRUE(first->WaitForLine("world 2", kSoon)) << first->Text();
  second->Signal(SIGTERM);
  EXPECT_EQ(second->Wait(), 128 + SIGTERM) << second->Text();
  const size_t before = From(first->OutLines(), "world 2").size();
  second = Node("1:2", {"--node_rank=1"});  // torchrun would report that the rendezvous is closed
  ASSERT_TRUE(first->WaitForLines("world 2", before + 1, kSoon)) << first->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_F(TorchrunElastic, Behaviour46And49SpareWaitsAndEndsWithTheJob) {
  const auto first = Node("1", {"--node_rank=0"});
  ASSERT_TRUE(first->WaitForLine("world 1", kSoon)) << first->Text();
  const auto spare = Node("1", {"--node_rank=1"});
  ASSERT_TRUE(spare->WaitForLine("spare", kSoon)) << spare->Text();
  Go();
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(spare->Wait(), 0) << spare->Text();
}

/// Nodes with their own addresses, and a service that none of them hosts.
class TorchrunStore : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    if (!network_) return;
    if (!HavePython()) GTEST_SKIP() << "there is no python3";
    support::WriteText(folder_.File("meet_and_stay.py"),
                       absl::StrCat("import runpy, time\nmet = runpy.run_path('",
                                    support::TestFile("support/toys/meet.py"), "')\ntime.sleep(1000)\n"));
    service_ = std::make_unique<Program>(
        network_->On(0, {support::BinaryFolder() + "/mtrdzv", "--insecure", "--endpoint", endpoints_[0]}),
        Environment());
    ASSERT_TRUE(service_->WaitForLine("serving")) << service_->Text();
  }
  void TearDown() override {
    service_.reset();
    NetworkTest::TearDown();
  }
  /// Starts one worker on that node: it connects to the others at rank 0's store, then stays.
  std::unique_ptr<Program> Join(int node, int node_rank, const std::string& last_call) {
    support::Overlay overlay = Environment();
    overlay["PYTHONUNBUFFERED"] = "1";
    return std::make_unique<Program>(
        network_->On(node, Command({"--nnodes", "1:2", "--rdzv_endpoint", endpoints_[0], "--insecure",
                                    "--store=rank0", "--node_rank", absl::StrCat(node_rank), "--rdzv_conf",
                                    "last_call_timeout=" + last_call, folder_.File("meet_and_stay.py")})),
        overlay);
  }

  std::unique_ptr<Program> service_;
};

TEST_F(TorchrunStore, Behaviour61NodeThatBecomesRankZeroLaterHasTheStore) {
  const auto first = Join(1, 1, "20"), second = Join(2, 2, "20");
  ASSERT_TRUE(first->WaitForLine("MET [0, 1] at " + network_->Address(1))) << first->Text();
  ASSERT_TRUE(second->WaitForLine("SENT 1")) << second->Text();
  first->Signal(SIGKILL);
  ASSERT_TRUE(second->WaitForLine("MET [0] at " + network_->Address(2))) << second->Text();
  const auto third = Join(1, 3, "20");
  ASSERT_TRUE(second->WaitForLine("MET [0, 1] at " + network_->Address(2))) << second->Text();
  EXPECT_TRUE(third->WaitForLine("SENT 1")) << third->Text();
}

}  // namespace
}  // namespace mtrun::e2e
