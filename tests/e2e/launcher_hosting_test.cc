// The service ends with the mtrun that hosts it: the effect on the other nodes, at the start and at the end.
#include <chrono>

#include "absl/strings/str_split.h"
#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

/// Two jobs that share one endpoint of this machine.
class SharedEndpointTest : public LauncherTest {
 protected:
  /// Prints "ready" and waits until the file `name` exists in the test's folder.
  std::unique_ptr<Program> StartJob(const std::string& id, const std::string& name, int code) const {
    const std::string script =
        Script(id + ".sh", absl::StrCat("echo ready; while [ ! -e ", folder_.File(name),
                                        " ]; do sleep 0.02; done; exit ", code, "\n"));
    const std::vector<std::string> args = {
        "--nnodes", "1", "--nproc_per_node", "2", "--rdzv_endpoint", endpoint_, "--rdzv_id", id, script};
    return std::make_unique<Program>(Command(args), Environment());
  }
  void Let(const std::string& name) const { support::WriteText(folder_.File(name), ""); }
};

TEST_F(SharedEndpointTest, OtherJobHostsAfterTheFirstEnded) {
  const auto first = StartJob("first", "go1", 0);
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous at " + endpoint_) && first->WaitForLines("ready", 2))
      << first->Text();
  const auto well = StartJob("well", "go2", 0), badly = StartJob("badly", "go2", 3);
  ASSERT_TRUE(well->WaitForLines("ready", 2) && badly->WaitForLines("ready", 2))
      << well->Text() << badly->Text();
  EXPECT_TRUE(well->WaitForLine("hosted elsewhere", Seconds(0)));
  Let("go1");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  Let("go2");
  EXPECT_EQ(well->Wait(), 0) << well->Text();
  EXPECT_EQ(badly->Wait(), 3) << badly->Text();
  EXPECT_THAT(badly->Text(), HasSubstr("badly.sh FAILED"));
  // By then the service at the endpoint belongs to one of the nodes, or each node uses its own.
  EXPECT_THAT(well->Text() + badly->Text(), AnyOf(HasSubstr("hosting the rendezvous at " + endpoint_),
                                                  HasSubstr("trying the services of other nodes")));
}

/// An mtrun that cannot bind the endpoint retries twice a second, without reading the membership saved there.
TEST_F(SharedEndpointTest, OnlyTheHostReadsTheSavedMembership) {
  std::filesystem::create_directories(folder_.File("mtrun"));
  support::WriteText(folder_.File("mtrun") + "/0000000000000000.membership", "damaged");
  const auto first = StartJob("first", "go1", 0);
  ASSERT_TRUE(first->WaitForLines("ready", 2)) << first->Text();
  const auto second = StartJob("second", "go2", 0);
  ASSERT_TRUE(second->WaitForLines("ready", 2)) << second->Text();
  Let("go2");
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  Let("go1");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  const std::vector<std::string> said = absl::StrSplit(first->Text(), "0.membership is ignored");
  EXPECT_EQ(said.size(), 2u) << first->Text();
  EXPECT_THAT(second->Text(), Not(HasSubstr("membership is ignored")));
}

class HostingTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    if (network_) list_ = {network_->Address(0) + ":29400", network_->Address(1) + ":29400"};
  }
  /// Runs a command on every worker instead of the toy.
  void Run(const std::string& text) { toy_ = {Script("run.sh", text)}; }
  /// Rank 0 fails as soon as the file "go" exists; rank 1 never ends.
  void RunUntilTheHostFails() {
    Run("echo ready; [ $RANK = 1 ] && exec sleep 1000\n"
        "while [ ! -e " +
        folder_.File("go") + " ]; do sleep 0.02; done; echo the cause >&2; exit 9\n");
  }

  std::vector<std::string> list_;
};

/// The host of the second endpoint does not wait for an answer from the first. With a list a service waits 3
/// s for others before it starts, whatever their order: the same list in reverse order is the comparison.
TEST_F(HostingTest, MissingFirstHostOfAListDelaysNoStart) {
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  const auto time_to_start = [this](const std::vector<std::string>& list) {
    endpoints_ = list;
    const auto begin = Clock::now();
    // By default the job does not start while the other service may have it.
    const auto mtrun = Start(1, "1:2", ",takeover=any");
    EXPECT_TRUE(mtrun->WaitForLine("in generation 1: rank", kSoon)) << mtrun->Text();
    const Seconds took = Clock::now() - begin;
    mtrun->Signal(SIGTERM);
    EXPECT_TRUE(mtrun->Wait(kSoon).has_value()) << mtrun->Text();
    return took;
  };
  const Seconds own_first = time_to_start({list_[1], list_[0]}), other_first = time_to_start(list_);
  EXPECT_LT(other_first, own_first + Seconds(2)) << own_first.count();
}

TEST_F(HostingTest, SurvivorStartsIfTheFirstHostOfTheListDiesEarly) {
  endpoints_ = list_;
  const auto first = Start(0, "2:3");
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous at " + list_[0], kSoon)) << first->Text();
  const auto second = Start(1, "2:3");
  first->Signal(SIGKILL);
  const auto third = Start(2, "2:3");
  EXPECT_TRUE(Met(*second, 1, 2)) << second->Text() << third->Text();
}

TEST_F(HostingTest, NodeWithFinishedWorkersEndsWithoutAService) {
  Run("[ $RANK = 0 ] && exec sleep 1000; echo done; exit 0\n");
  const auto host = Start(0, "2", ",fence_timeout=2");
  const auto other = Start(1, "2", ",fence_timeout=2");
  ASSERT_TRUE(other->WaitForLine("done", kSoon)) << other->Text();
  ASSERT_TRUE(network_->SetLink(0, false).ok());
  EXPECT_EQ(other->Wait(), 0) << other->Text();
  EXPECT_THAT(other->Text(), HasSubstr("this node's workers are done: it ends, without having heard"));
}

TEST_F(HostingTest, HostWaitsForMembersDisconnectedWhileTheJobEnded) {
  RunUntilTheHostFails();
  const auto host = Start(0, "2");
  const auto other = Start(1, "2");
  ASSERT_TRUE(host->WaitForLine("ready", kSoon) && other->WaitForLine("ready", kSoon)) << host->Text();
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  support::WriteText(folder_.File("go"), "");
  ASSERT_TRUE(host->WaitForLine("still hosting the rendezvous for a moment", kSoon)) << host->Text();
  ASSERT_TRUE(network_->SetLink(1, true).ok());
  EXPECT_EQ(other->Wait(), 9) << other->Text();
  EXPECT_THAT(other->Text(), HasSubstr("the cause"));
  EXPECT_EQ(host->Wait(), 9) << host->Text();
}

TEST_F(HostingTest, HostDoesNotWaitForADeadMember) {
  RunUntilTheHostFails();
  const auto host = Start(0, "2");
  const auto other = Start(1, "2");
  ASSERT_TRUE(host->WaitForLine("ready", kSoon) && other->WaitForLine("ready", kSoon)) << host->Text();
  support::WriteText(folder_.File("go"), "");
  other->Signal(SIGKILL);
  const auto begin = Clock::now();
  EXPECT_EQ(host->Wait(), 9) << host->Text();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8)) << host->Text();
}

}  // namespace
}  // namespace mtrun::e2e
