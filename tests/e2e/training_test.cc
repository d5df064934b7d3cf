// mtrun and a trainer together: on one node, on two made of network namespaces, and with a killed worker.
#include <signal.h>

#include <algorithm>

#include "tests/e2e/training.h"
#include "tests/support/namespaces.h"
#include "tests/support/small_disk.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TrainingTest : public TrainingRuns {};

TEST_F(TrainingTest, ThreeWorkersTrainTheSameAsOne) {
  const auto training = TrainHere(3, "three", 2);
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_TRUE(training->WaitForLine("[cnnA0]:test accuracy  ", Seconds(0))) << training->Text();
  ExpectUndisturbed("three", 2);
}

TEST_F(TrainingTest, KilledWorkerIsNamedAndNoProcessIsLeft) {
  const auto training = Train({"--standalone", "--nproc_per_node", "2", "--max_restarts", "0"}, "killed",
                              100000, {"--log_every", "1"});
  ASSERT_TRUE(training->WaitForLine("[cnnA0]:epoch 2/100000")) << training->Text();
  const std::set<pid_t> workers = Workers();
  ASSERT_EQ(workers.size(), 2u);
  const pid_t victim = *workers.rbegin();
  kill(victim, SIGKILL);
  // The kernel notifies the survivor's group, and the pidfd mtrun; an idle machine needs under 1 s.
  ASSERT_EQ(training->Wait(Seconds(20)), 137) << training->Text();
  EXPECT_THAT(training->Text(), AllOf(HasSubstr("cnnA FAILED"), HasSubstr(absl::StrCat("pid ", victim)),
                                      HasSubstr("SIGKILL"), HasSubstr("stderr.log"), HasSubstr("host")));
}

TEST_F(TrainingTest, RefusedResumeIsOneSentenceBeforeAnyWorkerStarts) {
  const auto first = TrainHere(1, "run", 1);
  ASSERT_EQ(first->Wait(), 0) << first->Text();
  const auto again = TrainHere(3, "run", 2, {"--seed", "5"});
  EXPECT_EQ(again->Wait(), 2);
  const std::string text = again->Text();
  EXPECT_THAT(text,
              AllOf(HasSubstr("run has a checkpoint of another run: seed is 5, but the checkpoint has 0"),
                    HasSubstr("another --model_folder"), Not(HasSubstr("generation"))));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

/// Workers that replace a fully dead generation have the same flags.
TEST_F(TrainingTest, JobStartsOverOnceHoweverOftenItsWorkersDie) {
  const std::vector<std::string> anew = {"--resume=false", "--checkpoint_steps", "5"};
  for (const int count : {1, 2}) {
    const std::string run = absl::StrCat("run", count), ledger = folder_.File(run) + "/ledger.jsonl";
    const auto training = TrainHere(count, run, 100000, anew);
    ASSERT_TRUE(training->WaitForLine("[cnnA0]:epoch 3/100000")) << training->Text();
    while (Checkpoints(run) == 0) ASSERT_FALSE(training->Wait(Seconds(0.02))) << training->Text();
    const std::set<pid_t> workers = Workers();
    ASSERT_EQ(workers.size(), static_cast<size_t>(count));
    for (const pid_t pid : workers) kill(pid, SIGKILL);
    ASSERT_TRUE(training->WaitForLine("resumed from ")) << training->Text();
    training->Signal(SIGTERM);
    ASSERT_EQ(training->Wait(), 143) << training->Text();
    EXPECT_FALSE(std::filesystem::exists(folder_.File(run) + "/previous_1")) << training->Text();
    EXPECT_EQ(From(absl::StrSplit(support::ReadText(ledger), '\n'), "{\"ledger\":").size(), 1u);
    ExpectExactlyOnce({run}, {"--partial"});
    // The next job starts over.
    const auto next = TrainHere(count, run, 1, anew);
    ASSERT_EQ(next->Wait(), 0) << next->Text();
    EXPECT_THAT(next->Text(), AllOf(HasSubstr("previous_1"), Not(HasSubstr("resumed from"))));
    EXPECT_TRUE(std::filesystem::exists(folder_.File(run) + "/previous_1/ledger.jsonl"));
    ExpectExactlyOnce({run});
  }
}

/// Neither the writer nor the successor of a dead worker gives up.
TEST_F(TrainingTest, FullDiskPausesTheRunAndLosesNothing) {
  const auto disk = support::SmallDisk::Make(folder_.File("disk"), 4 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  const auto training =
      Train({"--standalone", "--nproc_per_node", "2"}, "disk/run", 8, {}, {{"MTRUN_PACE", "0.05"}});
  ASSERT_TRUE(training->WaitForLine("[cnnA0]:epoch 1/8")) << training->Text();
  (*disk)->Fill();
  const std::set<pid_t> workers = Workers();
  ASSERT_EQ(workers.size(), 2u);
  kill(*workers.begin(), SIGKILL);
  // The killed worker may have reported it before.
  const auto successor_waits = [&] {
    for (const std::string& line : From(training->ErrLines(), "[cnnA1]:")) {
      if (line.find("the run is paused until there is free disk space") != std::string::npos) return true;
    }
    return false;
  };
  while (!successor_waits()) ASSERT_FALSE(training->Wait(Seconds(0.02))) << training->Text();
  (*disk)->Free();
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_THAT(training->Text(), HasSubstr("the run continues"));
  ExpectUndisturbed("disk/run", 8);
}

TEST_F(TrainingTest, TwoNodesTrainTogetherOverTcp) {
  const auto made = support::TwoNodes::Make();
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  const support::TwoNodes& nodes = **made;
  std::vector<std::unique_ptr<Program>> agents;
  for (int node = 0; node < 2; ++node) {
    const std::vector<std::string> args = {"--nnodes",         "2",
                                           "--nproc_per_node", node == 0 ? "2" : "1",
                                           "--node_rank",      absl::StrCat(node),
                                           "--rdzv_endpoint",  nodes.Address(0) + ":29400"};
    support::Overlay overlay = Environment();
    overlay["HOME"] = folder_.path();  // both nodes share it, and so the token
    agents.push_back(
        std::make_unique<Program>(nodes.On(node, Command(Words(args, Trainer("nodes", 2)))), overlay));
  }
  for (const auto& agent : agents) ASSERT_EQ(agent->Wait(), 0) << agents[0]->Text() << agents[1]->Text();
  EXPECT_THAT(agents[0]->Text(), AllOf(HasSubstr("2 nodes, world size 3"), HasSubstr("3 on 2 nodes")));
  ExpectUndisturbed("nodes", 2);
}

}  // namespace
}  // namespace mtrun::e2e
