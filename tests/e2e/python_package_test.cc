// The Python package's example over PyTorch and Gloo: workers and nodes are killed, leave and join, and the
// run continues in place. tools/test --full; tools/setup --peers installs its imports.
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "absl/strings/str_split.h"
#include "tests/e2e/either.h"

namespace mtrun::e2e {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr Seconds kSlow{120};           // a start of Python with PyTorch on a loaded machine
constexpr Seconds kLongestSuite{1500};  // beside two other tests; replica_with_torch.py takes 300 s alone

class PythonPackage : public LauncherTest {
 protected:
  void SetUp() override {
    if (Program({PeersPython(), "-c", "import torch"}).Wait(kSlow) != 0)
      GTEST_SKIP() << "no Python with PyTorch: tools/setup --peers makes one";
  }

  support::Overlay PythonEnvironment() const {
    support::Overlay overlay = Environment();
    overlay["PYTHON_EXEC"] = PeersPython();
    overlay["PYTHONPATH"] = support::TestFile("../python");
    overlay["PYTHONDONTWRITEBYTECODE"] = "1";
    return overlay;
  }
  /// Returns the example's arguments: 16 steps per epoch.
  std::vector<std::string> Example(const std::string& run, const std::vector<std::string>& more) const {
    return Words({"--float64", "--size", "250", "--global_batch", "16", "--batch_size", "2", "--folder",
                  folder_.File(run)},
                 more);
  }

  /// Runs the example, alone or under mtrun with these arguments.
  std::unique_ptr<Program> Train(const std::vector<std::string>& mtrun, const std::string& run,
                                 const std::vector<std::string>& more = {}) {
    const std::vector<std::string> example =
        Words({support::TestFile("../python/examples/train_elastic.py")}, Example(run, more));
    if (mtrun.empty()) return std::make_unique<Program>(Words({PeersPython()}, example), PythonEnvironment());
    return std::make_unique<Program>(Command(Words(mtrun, example)), PythonEnvironment());
  }

  static std::map<int, pid_t> PidsIn(Program& mtrun, int generation, int world) {
    std::map<int, pid_t> pids;
    const std::string start = absl::StrCat("generation ", generation, ": rank ");
    EXPECT_TRUE(mtrun.WaitForLines(absl::StrCat(start), world, kSlow)) << mtrun.Text();
    for (const std::string& line : From(mtrun.OutLines(), start)) {
      // "generation 1: rank 0 of 3 is pid 77"
      const std::vector<std::string> words = absl::StrSplit(line.substr(line.find("generation ")), ' ');
      pids[std::stoi(words.at(3))] = static_cast<pid_t>(std::stoi(words.at(8)));
    }
    return pids;
  }

  static std::map<int, double> Losses(Program& program) {
    std::map<int, double> losses;
    for (const std::string& line : From(program.OutLines(), "step ")) {
      // "step 3 epoch 1 loss 2.3 with 2 workers"
      const std::vector<std::string> words = absl::StrSplit(line.substr(line.find("step ")), ' ');
      losses[std::stoi(words.at(1))] = std::stod(words.at(5));
    }
    return losses;
  }

  void ExpectAsAlone(const std::map<int, double>& seen, int epochs) {
    const auto alone = Train({}, "alone", {"--epochs", absl::StrCat(epochs)});
    ASSERT_EQ(alone->Wait(kSlow), 0) << alone->Text();
    const auto expected = Losses(*alone);
    ASSERT_EQ(expected.size(), static_cast<size_t>(16 * epochs));
    ASSERT_EQ(seen.size(), expected.size());
    for (const auto& [step, loss] : expected)
      EXPECT_NEAR(seen.at(step), loss, 1e-9 * std::abs(loss)) << "step " << step;
  }

  void ExpectExactlyOnce(const std::string& run) {
    Program verify({"python3", support::TestFile("../tools/verify_ledger"), folder_.File(run)});
    EXPECT_EQ(verify.Wait(), 0) << verify.Text();
    EXPECT_THAT(verify.Text(), HasSubstr("every sample exactly once"));
  }
};

TEST_F(PythonPackage, KilledWorkersAreReplacedAndTheSurvivorsContinueInPlace) {
  const auto mtrun = Train({"--standalone", "--nproc_per_node", "3", "--max_restarts", "5"}, "run",
                           {"--epochs", "6", "--step_seconds", "0.1"});
  const auto first = PidsIn(*mtrun, 1, 3);
  ASSERT_TRUE(mtrun->WaitForLine("step 9 ", kSlow)) << mtrun->Text();
  kill(first.at(1), SIGKILL);
  const auto second = PidsIn(*mtrun, 2, 3);
  EXPECT_EQ(second.at(0), first.at(0));
  EXPECT_EQ(second.at(2), first.at(2));
  kill(second.at(0), SIGKILL);  // the one that writes the ledger
  const auto third = PidsIn(*mtrun, 3, 3);
  EXPECT_EQ(third.at(2), first.at(2));
  ASSERT_EQ(mtrun->Wait(kSlow), 0) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), HasSubstr("done: "));
  ExpectAsAlone(Losses(*mtrun), 6);
  ExpectExactlyOnce("run");
}

TEST_F(PythonPackage, TrainersDoNotWaitForAFreshWorkersStart) {
  support::Overlay overlay = PythonEnvironment();
  overlay["MTRUN_TRAINER_PATH"] = support::TestFile("../python/examples");
  Program mtrun(Command(Words({"--standalone", "--nproc_per_node", "3", "--trainer", "train_elastic.py"},
                              Example("run", {"--epochs", "12", "--step_seconds", "0.1"}))),
                overlay);
  const auto first = PidsIn(mtrun, 1, 3);
  ASSERT_TRUE(mtrun.WaitForLine("step 3 ", kSlow)) << mtrun.Text();
  kill(first.at(1), SIGKILL);
  ASSERT_TRUE(mtrun.WaitForLine("with 2 workers", kSlow)) << mtrun.Text();  // continues without it
  const auto third = PidsIn(mtrun, 3, 3);                                   // and it joins
  EXPECT_EQ(third.at(0), first.at(0));
  ASSERT_EQ(mtrun.Wait(kSlow), 0) << mtrun.Text();
  ExpectAsAlone(Losses(mtrun), 12);
  ExpectExactlyOnce("run");
}

/// The suites of tests/python that need PyTorch.
class PythonSuites : public PythonPackage, public testing::WithParamInterface<const char*> {};

TEST_P(PythonSuites, Pass) {
  const std::string file = absl::StrCat("python/", GetParam(), "_with_torch.py");
  Program test({PeersPython(), support::TestFile(file)}, PythonEnvironment());
  EXPECT_EQ(test.Wait(kLongestSuite), 0) << test.Text();
}

INSTANTIATE_TEST_SUITE_P(WithTorch, PythonSuites,
                         testing::Values("branches", "checkpoint", "dcp", "exact", "gradients", "handover",
                                         "hsdp", "late_sums", "regroup", "replica", "replica_sums", "saver",
                                         "timm", "training"),
                         [](const auto& suite) { return std::string(suite.param); });

// A script with loader processes, augmentation, dropout, clipping, a schedule, EMA and loss scaling.
TEST_F(PythonPackage, ResultsDoNotDependOnWorkersOrKills) {
  Program test({PeersPython(), support::TestFile("python/training_under_mtrun.py"), Mtrun()},
               PythonEnvironment());
  EXPECT_EQ(test.Wait(5 * kSlow), 0) << test.Text();
}

TEST_F(PythonPackage, NodesJoinLeaveAndDie) {
  const auto node = [&](int rank) {
    return Train({"--nnodes", "1:3", "--nproc_per_node", "1", "--rdzv_endpoint", endpoint_, "--rdzv_conf",
                  "last_call_timeout=1", "--node_rank", absl::StrCat(rank), "--max_restarts", "5"},
                 "run", {"--epochs", "12", "--step_seconds", "0.1"});
  };
  const auto first = node(0);
  ASSERT_TRUE(first->WaitForLine("step 3 ", kSlow)) << first->Text();
  const pid_t survivor = PidsIn(*first, 1, 1).at(0);
  auto second = node(1), third = node(2);
  ASSERT_TRUE(first->WaitForLine("with 3 workers", kSlow)) << first->Text();
  second->Signal(SIGTERM);  // leaves after its step
  EXPECT_EQ(second->Wait(kSlow), 0) << second->Text();
  ASSERT_TRUE(first->WaitForLine("with 2 workers", kSlow)) << first->Text();
  third.reset();  // killed
  EXPECT_EQ(first->Wait(kSlow), 0) << first->Text();
  // Nodes joined, left and died: the first one's worker is one process from the first step to the last.
  const auto generations = From(first->OutLines(), "generation ");
  EXPECT_GE(generations.size(), 4u) << first->Text();
  for (const std::string& line : generations) EXPECT_THAT(line, EndsWith(absl::StrCat(" is pid ", survivor)));
  ExpectAsAlone(Losses(*first), 12);
  ExpectExactlyOnce("run");
}

TEST_F(PythonPackage, StopSavesAndTheSameCommandContinues) {
  const std::vector<std::string> args = {"--standalone", "--nproc_per_node", "2"};
  const auto stopped = Train(args, "run", {"--epochs", "4", "--step_seconds", "0.1"});
  ASSERT_TRUE(stopped->WaitForLine("step 5 ", kSlow)) << stopped->Text();
  stopped->Signal(SIGTERM);
  EXPECT_EQ(stopped->Wait(kSlow), 128 + SIGTERM) << stopped->Text();
  const auto losses = Losses(*stopped);
  const auto continued = Train({"--standalone", "--nproc_per_node", "3"}, "run", {"--epochs", "4"});
  ASSERT_EQ(continued->Wait(kSlow), 0) << continued->Text();
  auto all = Losses(*continued);
  EXPECT_EQ(all.begin()->first, losses.rbegin()->first + 1);
  all.insert(losses.begin(), losses.end());
  ExpectAsAlone(all, 4);
  ExpectExactlyOnce("run");
}

}  // namespace
}  // namespace mtrun::e2e
