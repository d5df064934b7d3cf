// Cooperative workers, in C++ and Python: they outlive their generation, dead ones are replaced while the
// others run, and nodes join and leave.
#include <signal.h>

#include "absl/strings/str_split.h"
#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Returns the workers of one mtrun in a generation: rank -> pid.
std::map<int, pid_t> PidsIn(Program& mtrun, int generation) {
  std::map<int, pid_t> pids;
  const std::string start = absl::StrCat("in generation ", generation, ":");
  for (const std::string& line : From(mtrun.OutLines(), start)) {
    // "in generation 2: rank 0 of 3 pid 77 ."
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    pids[std::stoi(words.at(4))] = static_cast<pid_t>(std::stoi(words.at(8)));
  }
  return pids;
}

void SignalAll(const std::map<int, pid_t>& pids, int signal) {
  for (const auto& [rank, pid] : pids) kill(pid, signal);
}

class CooperativeTest : public LauncherTest {
 protected:
  static std::vector<std::string> Toy() {
    return {support::BinaryFolder() + "/../tests/toy_worker", "cooperative"};
  }

  std::unique_ptr<Program> Start(std::vector<std::string> args, const std::vector<std::string>& toy = Toy()) {
    args.insert(args.end(), toy.begin(), toy.end());
    return std::make_unique<Program>(Command(args), Environment());
  }
  std::unique_ptr<Program> StartAlone(int workers, const std::vector<std::string>& more,
                                      const std::vector<std::string>& toy = Toy()) {
    std::vector<std::string> args = {"--standalone", "--nproc_per_node", absl::StrCat(workers)};
    args.insert(args.end(), more.begin(), more.end());
    return Start(std::move(args), toy);
  }
  std::unique_ptr<Program> StartNode(int rank, const std::string& nodes, int workers = 2,
                                     const std::vector<std::string>& toy = Toy()) {
    return Start({"--nnodes", nodes, "--nproc_per_node", absl::StrCat(workers), "--rdzv_endpoint", endpoint_,
                  "--rdzv_conf", "last_call_timeout=20", "--node_rank", absl::StrCat(rank)},
                 toy);
  }

  static testing::AssertionResult Met(Program& mtrun, int generation, int world, size_t here) {
    const std::string text = absl::StrCat("in generation ", generation, ": rank");
    if (!mtrun.WaitForLines(text, here, kSoon)) return testing::AssertionFailure() << mtrun.Text();
    for (const std::string& line : From(mtrun.OutLines(), text)) {
      if (line.find(absl::StrCat(" of ", world, " ")) == std::string::npos)
        return testing::AssertionFailure() << line << "\n" << mtrun.Text();
    }
    return testing::AssertionSuccess();
  }

  void KillOneOfThree(const std::vector<std::string>& toy) {
    const auto mtrun = StartAlone(3, {"--max_restarts", "1"}, toy);
    ASSERT_TRUE(Met(*mtrun, 1, 3, 3));
    const auto before = PidsIn(*mtrun, 1);
    kill(before.at(1), SIGKILL);
    ASSERT_TRUE(Met(*mtrun, 2, 3, 3));
    const auto after = PidsIn(*mtrun, 2);
    EXPECT_EQ(after.at(0), before.at(0));
    EXPECT_EQ(after.at(2), before.at(2));
    EXPECT_NE(after.at(1), before.at(1));
    EXPECT_EQ(From(mtrun->OutLines(), "dissolved generation 1").size(), 2u) << mtrun->Text();
    EXPECT_THAT(mtrun->Text(), AllOf(HasSubstr("killed by SIGKILL"), HasSubstr("restart 1 of 1")));
    SignalAll(after, SIGUSR1);
    EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  }
};

TEST_F(CooperativeTest, KilledWorkerIsReplacedWhileTheOthersRun) { KillOneOfThree(Toy()); }

TEST_F(CooperativeTest, KilledPythonWorkerIsReplacedWhileTheOthersRun) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  KillOneOfThree({support::TestFile("support/toys/cooperative.py")});
}

TEST_F(CooperativeTest, KilledPythonPackageWorkerIsReplacedWhileTheOthersRun) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  KillOneOfThree({support::TestFile("support/toys/joined.py")});
}

/// The numbers are for people; the job goes on without them, on a node that another one hosts.
TEST_F(CooperativeTest, ImplausibleProgressIsIgnoredWithOneWarning) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string toy = folder_.File("implausible.py");
  support::WriteText(toy, R"(import json, os, socket
channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["MTRUN_SOCKET"].replace("@", "\0", 1))
def say(kind, **fields):
    channel.sendall((json.dumps({"type": kind, **fields}) + "\n").encode())
say("hello", protocol=1, pid=os.getpid(), local_rank=0, cooperative=False, reports=True)
for step, samples in ((-1, 0), (2 ** 60, 0), (7, 2 ** 60), (-5, -5)):
    say("progress", epoch=0, step=step, samples=samples)
)");
  auto host = StartNode(0, "2", 1, {toy}), member = StartNode(1, "2", 1, {toy});
  for (Program* mtrun : {host.get(), member.get()}) {
    EXPECT_EQ(mtrun->Wait(kSoon), 0) << mtrun->Text();
    EXPECT_THAT(mtrun->Text(), HasSubstr("reports step -1: such progress is ignored"));
    EXPECT_THAT(mtrun->Text(), Not(HasSubstr("reports step -5")));
  }
}

TEST_F(CooperativeTest, WorkerDeathWithoutBudgetEndsTheJob) {
  const auto mtrun = StartAlone(2, {});
  ASSERT_TRUE(Met(*mtrun, 1, 2, 2));
  kill(PidsIn(*mtrun, 1).at(1), SIGKILL);
  EXPECT_EQ(mtrun->Wait(kSoon), 128 + SIGKILL) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), HasSubstr("FAILED"));
}

TEST_F(CooperativeTest, LastWorkersDeathRestartsTheNode) {
  const auto mtrun = StartAlone(1, {"--max_restarts", "1"});
  ASSERT_TRUE(Met(*mtrun, 1, 1, 1));
  kill(PidsIn(*mtrun, 1).at(0), SIGKILL);
  ASSERT_TRUE(Met(*mtrun, 2, 1, 1));
  SignalAll(PidsIn(*mtrun, 2), SIGUSR1);
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
}

TEST_F(CooperativeTest, BrokenCollectivesRegroupAllNodesWithoutUsingBudget) {
  const auto mtrun = StartAlone(2, {"--max_restarts", "0"});
  ASSERT_TRUE(Met(*mtrun, 1, 2, 2));
  const auto before = PidsIn(*mtrun, 1);
  kill(before.at(1), SIGUSR2);
  ASSERT_TRUE(Met(*mtrun, 2, 2, 2));
  EXPECT_EQ(PidsIn(*mtrun, 2), before);
  EXPECT_TRUE(mtrun->WaitForLine("rank 1 on ")) << mtrun->Text();
  EXPECT_TRUE(mtrun->WaitForLine("cannot go on with the others: reset by peer")) << mtrun->Text();
  SignalAll(before, SIGUSR1);
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
}

TEST_F(CooperativeTest, NodesLeaveAndJoinWithoutARestart) {
  const auto first = StartNode(0, "1:2");
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  const auto second = StartNode(1, "1:2");
  ASSERT_TRUE(Met(*first, 1, 4, 2) && Met(*second, 1, 4, 2));
  const auto pids = PidsIn(*first, 1);

  second->Signal(SIGTERM);
  EXPECT_EQ(second->Wait(kSoon), 0) << second->Text();  // the others continue
  EXPECT_THAT(second->Text(),
              AllOf(HasSubstr("received SIGTERM"), Not(testing::ContainsRegex("generation [0-9]+ ended"))));
  ASSERT_TRUE(Met(*first, 2, 2, 2));
  EXPECT_EQ(PidsIn(*first, 2), pids);

  const auto third = StartNode(1, "1:2");
  ASSERT_TRUE(Met(*first, 3, 4, 2) && Met(*third, 3, 4, 2));
  EXPECT_EQ(PidsIn(*first, 3), pids);

  third->Signal(SIGKILL);
  ASSERT_TRUE(Met(*first, 4, 2, 2));
  EXPECT_EQ(PidsIn(*first, 4), pids);
  SignalAll(pids, SIGUSR1);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
}

TEST_F(CooperativeTest, WorkersThatDoNotLeaveAreKilledAtTheDeadline) {
  std::vector<std::string> toy = Toy();
  toy.push_back("stays");
  const auto mtrun = StartAlone(2, {"--shutdown_timeout", "0.3"}, toy);
  ASSERT_TRUE(Met(*mtrun, 1, 2, 2));
  mtrun->Signal(SIGTERM);
  EXPECT_EQ(mtrun->Wait(kSoon), 128 + SIGTERM) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(),
              AllOf(HasSubstr("told to drain"), HasSubstr("some workers have not left within")));
}

}  // namespace
}  // namespace mtrun::e2e
