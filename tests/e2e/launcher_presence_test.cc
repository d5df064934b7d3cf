// The presence port of a real mtrun: it answers while the guardian runs, and the kernel refuses connections
// only when no process of the node is left. The test's own peer learns of it from the assignment.
#include <signal.h>

#include <chrono>

#include "base/presence_greeting.h"
#include "tests/e2e/launcher.h"
#include "tests/rendezvous/session/test_agent.h"
#include "tests/support/hear.h"

namespace mtrun::e2e {
namespace {

using testing::IsEmpty;

class PresenceTest : public LauncherTest {
 protected:
  void SetUp() override {
    // A worker that ignores SIGTERM, and its child that no signal to the worker's group reaches.
    const std::string script =
        Script("run.sh", "trap '' TERM\nsetsid sleep 1000 &\necho ready\nsleep 1000\nsleep 1000\n");
    mtrun_ = Agent("2", {"--nproc_per_node", "1", script});
    rendezvous::SessionOptions options;
    options.endpoint = endpoint_;
    options.token = support::kToken;
    options.job.job_id = "job";
    options.job.min_nodes = options.job.max_nodes = 2;
    peer_ = std::make_unique<rendezvous::TestAgent>("peer", options);
    peer_->Offer();
    const auto assigned = peer_->Next<rendezvous::Assigned>();
    ASSERT_TRUE(assigned) << mtrun_->Text();
    for (const rendezvous::Member& member : assigned->assignment().members)
      if (member.node_id != "peer") node_ = member;
    ASSERT_TRUE(mtrun_->WaitForLine("ready")) << mtrun_->Text();
    guardian_ = ChildOf(mtrun_->pid());
    agent_ = ChildOf(guardian_);
    ASSERT_TRUE(mark_.WaitForAlive(6));  // front, guardian, agent, the shell and its two children
  }

  std::string Hear(Seconds patience = Seconds(0.2)) const {
    return support::HearAt(node_.presence_port, patience);
  }

  /// At the first refusal only the front is left, which is not a process of the job.
  void ExpectRefusalAfterTheLast() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (Hear() != "refused") ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::vector<pid_t> alive = mark_.Alive();
    std::erase(alive, mtrun_->pid());
    EXPECT_THAT(alive, IsEmpty());
    EXPECT_EQ(mtrun_->Wait(), 128 + SIGKILL) << mtrun_->Text();
  }

  std::unique_ptr<Program> mtrun_;
  std::unique_ptr<rendezvous::TestAgent> peer_;
  rendezvous::Member node_;
  pid_t guardian_ = -1, agent_ = -1;
};

TEST_F(PresenceTest, AnswersWithTheIdFromItsOffer) {
  ASSERT_NE(node_.presence_id, 0u);
  const std::string greeting = PresenceGreeting(node_.presence_id);
  EXPECT_EQ(Hear(kSoon), greeting);
  kill(agent_, SIGSTOP);
  EXPECT_EQ(Hear(kSoon), greeting) << "while the agent is stopped";
  kill(agent_, SIGKILL);
  ExpectRefusalAfterTheLast();
}

TEST_F(PresenceTest, RefusesAfterTheLastProcessIfTheAgentIsKilled) {
  kill(agent_, SIGKILL);
  ExpectRefusalAfterTheLast();
}

TEST_F(PresenceTest, RefusesAfterTheLastProcessIfTheGuardianIsKilled) {
  kill(guardian_, SIGKILL);
  ExpectRefusalAfterTheLast();
}

TEST_F(PresenceTest, RefusesAfterTheLastProcessIfTheFrontIsKilled) {
  mtrun_->Signal(SIGKILL);
  ExpectRefusalAfterTheLast();
}

TEST_F(PresenceTest, IsSilentWhileAWorkerOutlivesGuardianAndAgent) {
  // Both at once, with no process left to kill their children.
  for (const pid_t pid : {mtrun_->pid(), guardian_, agent_}) kill(pid, SIGSTOP);
  for (const pid_t pid : {guardian_, agent_}) kill(pid, SIGKILL);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Hear(), "silent");
  EXPECT_THAT(mark_.Alive(), testing::Contains(testing::Ne(mtrun_->pid())));
  mtrun_->Signal(SIGCONT);
  ExpectRefusalAfterTheLast();
}

TEST_F(LauncherTest, SingleNodeHasNoPresencePort) {
  const std::string script = Script("run.sh", "readlink /proc/$$/fd/*\necho ready\n");
  Program mtrun(Command({"--standalone", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "socket:"), IsEmpty());
}

}  // namespace
}  // namespace mtrun::e2e
