// No two generations at once: a spare takes over once the member is certainly out, and never before.
#include <chrono>
#include <thread>

#include "tests/e2e/cluster.h"
#include "tests/e2e/event_log.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

/// A stand-alone service on node 0; jobs of one node, and a spare.
class LeaseTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    if (network_) service_ = StartService();
  }
  void TearDown() override {
    spare_.reset();
    member_.reset();
    service_.reset();
    NetworkTest::TearDown();
  }
  /// Starts a running member on node 1 and a spare on node 2.
  void StartBoth(const std::string& conf) {
    member_ = Start(1, "1:1", conf);
    ASSERT_TRUE(Runs(*member_, 1));
    spare_ = Start(2, "1:1", conf);
    ASSERT_TRUE(spare_->WaitForLine("spare: 1 of at most 1 node runs", kSoon)) << spare_->Text();
  }
  testing::AssertionResult Runs(Program& mtrun, int generation) const { return Met(mtrun, generation, 1); }

  /// Waits until /proc shows `state`.
  static bool WaitForState(pid_t pid, char state) {
    const auto give_up = Clock::now() + std::chrono::seconds(30);
    while (Clock::now() < give_up) {
      const std::string stat = support::ReadText(absl::StrCat("/proc/", pid, "/stat"));
      const size_t name_ends = stat.rfind(')');
      if (name_ends != std::string::npos && stat.substr(name_ends, 3) == std::string(") ") + state)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // another process's end gives us no event
    }
    return false;
  }

  std::unique_ptr<Program> service_, member_, spare_;
};

TEST_F(LeaseTest, SilentMemberKeepsItsGenerationUntilItsLeaseEnds) {
  StartBoth(",fence_timeout=4");
  const auto cut = Clock::now();
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  ASSERT_TRUE(spare_->WaitForLine("holding: generation 1 may still run on node1", kSoon)) << spare_->Text();
  ASSERT_TRUE(Runs(*spare_, 2));
  // The last heartbeat that the service received may be half a second older than the cut.
  EXPECT_GE(Clock::now() - cut, std::chrono::milliseconds(4400));
  EXPECT_TRUE(member_->WaitForLine("no rendezvous service has answered for 4.0 s (fence_timeout)", kSoon))
      << member_->Text();

  ASSERT_TRUE(network_->SetLink(1, true).ok());
  EXPECT_TRUE(member_->WaitForLine("generation 1 ended: the job has left generation 1", kSoon))
      << member_->Text();
  EXPECT_TRUE(member_->WaitForLine("spare: 1 of at most 1 node runs", kSoon)) << member_->Text();
}

TEST_F(LeaseTest, EvictionEndsTheWaitForAMember) {
  const std::string events = folder_.File("events");
  toy_.insert(toy_.begin(), {"--event_log", events});
  StartBoth(",fence_timeout=never");
  const auto [connected, connected_status] = Evict(0, "node1");
  EXPECT_THAT(connected, HasSubstr("node1 is connected"));
  EXPECT_EQ(connected_status, 1);
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  const auto line = spare_->WaitForLine("holding: generation 1 may still run on node1", kSoon);
  ASSERT_TRUE(line.has_value()) << spare_->Text();
  EXPECT_THAT(*line, HasSubstr("mtrun --evict NODE ENDPOINT"));
  const auto [stranger, stranger_status] = Evict(0, "node2");
  EXPECT_THAT(stranger, HasSubstr("\"node2\" is no member of generation 1")) << "a spare";
  EXPECT_EQ(stranger_status, 1);

  const auto [done, status] = Evict(0, "node1");
  EXPECT_EQ(status, 0) << done;
  EXPECT_THAT(done, HasSubstr("node1 is evicted from generation 1 of job"));
  EXPECT_THAT(done, HasSubstr("generation 2 runs on 1 node"));
  ASSERT_TRUE(Runs(*spare_, 2));
  EXPECT_TRUE(service_->WaitForLine("node1 is evicted by ", kSoon)) << service_->Text();

  // It was alive all the time: it learns of the eviction and that its generation is over, and does no harm.
  ASSERT_TRUE(network_->SetLink(1, true).ok());
  const auto told = member_->WaitForLine("generation 1 ended: node1 was evicted ", kSoon);
  ASSERT_TRUE(told.has_value()) << member_->Text();
  EXPECT_THAT(*told, AllOf(HasSubstr(" ago by "), HasSubstr("@node0 (pid ")));
  for (const std::string host : {"node1", "node2"}) {
    const auto calls = CallsIn(events, host);
    ASSERT_EQ(calls.size(), 1u) << host << "\n" << support::ReadText(events);
    EXPECT_EQ(calls[0]["call"], "evict");
    EXPECT_EQ(calls[0]["node"], "node1");
    EXPECT_EQ(calls[0]["by"]["host"], "node0");
    EXPECT_GT(calls[0]["by"]["pid"].get<int>(), 0);
    EXPECT_EQ(calls[0].contains("age_s"), host == "node1") << "it was not there then";
  }
  EXPECT_TRUE(member_->WaitForLine("spare: 1 of at most 1 node runs", kSoon)) << member_->Text();
  EXPECT_THAT(spare_->Text(), Not(HasSubstr("generation 2 ended")));
}

TEST_F(LeaseTest, MemberWithAFrozenAgentIsNotDead) {
  StartBoth(",fence_timeout=3");
  const pid_t agent = AgentOf(*member_);
  ASSERT_GT(agent, 0);
  const auto frozen = Clock::now();
  kill(agent, SIGSTOP);
  ASSERT_TRUE(Runs(*spare_, 2));
  EXPECT_GE(Clock::now() - frozen, std::chrono::milliseconds(3400)) << "its guardian answered";
  kill(agent, SIGCONT);
  EXPECT_TRUE(member_->WaitForLine("spare: 1 of at most 1 node runs", kSoon)) << member_->Text();
}

TEST_F(LeaseTest, RestartedServiceWithOnlyTheSpareWaitsForTheMember) {
  StartBoth("");
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  service_->Signal(SIGKILL);
  ASSERT_TRUE(service_->Wait().has_value());
  service_ = StartService();
  ASSERT_TRUE(service_->WaitForLine("hears of generation 1", kSoon)) << service_->Text();
  ASSERT_TRUE(spare_->WaitForLine("holding: generation 1 may still run on node1", kSoon)) << spare_->Text();
  ASSERT_TRUE(network_->SetLink(1, true).ok());
  ASSERT_TRUE(service_->WaitForLine("adopts generation 1", kSoon)) << service_->Text();
  EXPECT_THAT(spare_->Text(), Not(HasSubstr("in generation")));
}

/// No connected node knows of the running generation, but the previous service has saved it.
TEST_F(LeaseTest, RestartedServiceWithOnlyANewNodeWaitsForTheMember) {
  member_ = Start(1, "1:1");
  ASSERT_TRUE(Runs(*member_, 1));
  const pid_t worker = PidIn(*member_, 1);
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  service_->Signal(SIGKILL);
  ASSERT_TRUE(service_->Wait().has_value());
  service_ = StartService();
  spare_ = Start(2, "1:1");
  ASSERT_TRUE(service_->WaitForLine("hears of generation 1", kSoon)) << service_->Text();
  ASSERT_TRUE(spare_->WaitForLine("holding: generation 1 may still run on node1", kSoon)) << spare_->Text();
  ASSERT_TRUE(network_->SetLink(1, true).ok());
  ASSERT_TRUE(service_->WaitForLine("adopts generation 1", kSoon)) << service_->Text();
  ASSERT_TRUE(spare_->WaitForLine("spare: 1 of at most 1 node runs", kSoon)) << spare_->Text();
  EXPECT_THAT(spare_->Text(), Not(HasSubstr("in generation")));
  EXPECT_EQ(kill(worker, 0), 0) << "it has trained on";
}

TEST_F(LeaseTest, NewNodeWaitsForTheLeaseOfThePreviousMember) {
  member_ = Start(1, "1:1", ",fence_timeout=4");
  ASSERT_TRUE(Runs(*member_, 1));
  const auto cut = Clock::now();
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  ASSERT_TRUE(service_->WaitForLine("node1 is lost: no heartbeat", kSoon)) << service_->Text();
  spare_ = Start(2, "1:1", ",fence_timeout=4");
  ASSERT_TRUE(Runs(*spare_, 2));
  EXPECT_GE(Clock::now() - cut, std::chrono::milliseconds(4400));
}

TEST_F(LeaseTest, GuardianKillsTheOrdinaryWorkersOfAFrozenAgent) {
  toy_ = {"--no_python",
          Script("forever.sh", "echo in generation $TORCHELASTIC_RESTART_COUNT, pid $$\nexec sleep 1000\n")};
  member_ = Start(1, "1:1", ",fence_timeout=2");
  const auto line = member_->WaitForLine("in generation 0, pid ", kSoon);
  ASSERT_TRUE(line.has_value()) << member_->Text();
  const pid_t worker = std::stoi(line->substr(line->find("pid ") + 4)), agent = AgentOf(*member_);
  kill(agent, SIGSTOP);
  EXPECT_TRUE(WaitForState(worker, 'Z')) << "its agent is stopped and cannot reap it";
  kill(agent, SIGCONT);
  ASSERT_TRUE(member_->WaitForLine("generation 2", kSoon)) << member_->Text();
  EXPECT_TRUE(member_->WaitForLines("in generation 0", 2, kSoon))
      << "it has used a restart: " << member_->Text();
}

TEST_F(LeaseTest, OrdinaryWorkersAreKilledAtLeaseEndAndUseNoRestart) {
  toy_ = {"--no_python",
          Script("forever.sh", "echo in generation $TORCHELASTIC_RESTART_COUNT\nexec sleep 1000\n")};
  member_ = Start(1, "1:1", ",fence_timeout=2");
  ASSERT_TRUE(member_->WaitForLine("in generation 0", kSoon)) << member_->Text();
  ASSERT_TRUE(network_->SetLink(1, false).ok());
  ASSERT_TRUE(member_->WaitForLine("killing the workers, others may go on without this node", kSoon))
      << member_->Text();
  ASSERT_TRUE(network_->SetLink(1, true).ok());
  ASSERT_TRUE(member_->WaitForLine("generation 2", kSoon)) << member_->Text();
  EXPECT_TRUE(member_->WaitForLines("in generation 0", 2, kSoon))
      << "it has used a restart: " << member_->Text();
}

}  // namespace
}  // namespace mtrun::e2e
