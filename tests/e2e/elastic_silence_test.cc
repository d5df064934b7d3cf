// Links and nodes that stop for a while under an ordinary program, whose restart would cost all its progress:
// nothing restarts. tests/rendezvous/testdata has the rules as scripts.
#include "tests/e2e/liveness.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Two nodes, which the job needs both, and a service on a third one.
class SilenceTest : public LivenessTest {
 protected:
  void Begin(const std::string& conf = "", const std::vector<int>& spares = {}) {
    SetJob("2:2", 0, "ordinary", conf);
    Serve();
    Form({1, 2}, spares);
  }
  /// Expects steps of the first generation after now, by the same workers, until the job ends well.
  void ExpectNoRestart() {
    const auto step = WaitForStep(Now(), 1);
    ASSERT_TRUE(step) << Texts();
    EXPECT_EQ(step->generation, 1) << Texts();
    ExpectToEnd({1, 2});
    for (const int node : {1, 2}) {
      EXPECT_THAT(mtrun_[node]->Text(), Not(HasSubstr("generation 1 ended")));
      EXPECT_EQ(WorkersOf(node, 1).size(), size_t{kPerNode});
    }
  }
  void CutFor(double seconds) {
    ASSERT_TRUE(network_->SetLink(2, false).ok());
    Rest(Now() + seconds);
    ASSERT_TRUE(network_->SetLink(2, true).ok());
  }
};

TEST_F(SilenceTest, LinkDownFor2500MsRestartsNothing) {
  Begin();
  CutFor(2.5);
  EXPECT_TRUE(service_->WaitForLine("node2 is back after ", kSoon)) << service_->Text();
  ExpectNoRestart();
}

TEST_F(SilenceTest, LinkDownFor6SecondsRestartsNothing) {
  Begin();
  CutFor(6);
  EXPECT_TRUE(service_->WaitForLine("node2 is back after ", kSoon)) << service_->Text();
  ExpectNoRestart();
}

TEST_F(SilenceTest, FlappingLinkRestartsNothing) {
  Begin();
  for (const double seconds : {0.3, 1.0, 2.0}) {
    CutFor(seconds);
    Rest(Now() + 0.3);
  }
  ExpectNoRestart();
}

TEST_F(SilenceTest, NodeFrozenFor6SecondsRestartsNothing) {
  Begin();
  SignalNode(2, SIGSTOP);
  Rest(Now() + 6);
  SignalNode(2, SIGCONT);
  EXPECT_TRUE(service_->WaitForLine("node2 is back after ", kSoon)) << service_->Text();
  ExpectNoRestart();
}

TEST_F(SilenceTest, LossOf15PercentRestartsNothing) {
  if (Program({"nft", "--version"}).Wait() != 0) GTEST_SKIP() << "no nft here";
  Begin();
  ASSERT_TRUE(network_->SetLoss(2, 15).ok());
  Rest(Now() + 8);
  ASSERT_TRUE(network_->SetLoss(2, 0).ok());
  ExpectNoRestart();
}

TEST_F(SilenceTest, KilledAgentIsNoticedAtOnce) {
  Row([this] {
    Begin("", {3});
    const double fault = Now();
    KillAgent(2);
    ExpectToGoOn("agent killed, 2:2 with a spare, ordinary program", fault, kProven, 2);
  });
}

TEST_F(SilenceTest, SilentNodeIsReplacedByASpareAfterTheGivenTime) {
  Row([this] {
    Begin(",keep_alive_interval=0.5", {3});
    const double fault = Now();
    LosePower(2);
    ExpectToGoOn("host loses power, spare, ordinary program, keep-alive 0.5 s", fault, kSilent, 2);
  });
}

TEST_F(SilenceTest, SilentNodeIsNamedAndEvicted) {
  Begin(",keep_alive_interval=0.5");
  ASSERT_TRUE(network_->SetLink(2, false).ok());
  EXPECT_TRUE(service_->WaitForLine("node2 is suspected to be gone: no heartbeat for ", kSoon))
      << service_->Text();
  EXPECT_THAT(service_->Text(), HasSubstr("(--rdzv_conf keep_alive_interval)"));
  EXPECT_THAT(mtrun_[1]->Text(), Not(HasSubstr("generation 1 ended")));
  const auto [text, status] = Evict(0, "node2");
  EXPECT_EQ(status, 0) << text;
  EXPECT_TRUE(mtrun_[1]->WaitForLine("generation 1 ended: node2 is lost: evicted by", kSoon)) << Texts();
}

}  // namespace
}  // namespace mtrun::e2e
