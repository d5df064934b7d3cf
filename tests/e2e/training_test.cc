// mtrun and a trainer together: on one node, on two made of network namespaces, and when a worker is killed.
#include <signal.h>

#include <cmath>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/launcher.h"
#include "tests/support/namespaces.h"
#include "tests/trainers/engine/support/packed_set.h"

namespace mtrun::e2e {
namespace {

using engine::testing::LearnablePixel;
using engine::testing::WritePackedSet;
using testing::AllOf;
using testing::HasSubstr;

/// The loss of every step, as metrics.jsonl has it.
std::vector<double> Losses(const std::string& run_folder) {
  std::vector<double> losses;
  for (const absl::string_view line :
       absl::StrSplit(support::ReadText(run_folder + "/metrics.jsonl"), '\n', absl::SkipEmpty())) {
    const auto json = nlohmann::json::parse(std::string(line));
    if (json.contains("step")) losses.push_back(json["loss"]);
  }
  return losses;
}

class TrainingTest : public LauncherTest {
 protected:
  void SetUp() override {
    data_ = WritePackedSet(folder_.path(), "data", {.train = 100, .test = 40}, LearnablePixel);
  }

  /// --trainer cnnA and its flags: float64, 12 samples a step in micro-batches of 2, so that six workers
  /// could share it.
  std::vector<std::string> Trainer(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {
        "--trainer",   "cnnA",    "--data",          data_, "--model_folder", folder_.File(run),
        "--epochs",    "2",       "--batch_size",    "2",   "--global_batch", "12",
        "--precision", "float64", "--learning_rate", "0.05"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  std::unique_ptr<Program> Train(const std::vector<std::string>& launcher,
                                 const std::vector<std::string>& trainer) {
    std::vector<std::string> args = launcher;
    args.insert(args.end(), trainer.begin(), trainer.end());
    return std::make_unique<Program>(Command(args), Environment());
  }

  /// Every step's loss is that of one worker alone, up to the order of additions.
  void ExpectLikeOneWorker(const std::string& run) {
    const auto alone = Train({"--standalone"}, Trainer("alone"));
    ASSERT_EQ(alone->Wait(), 0) << alone->Text();
    const std::vector<double> expected = Losses(folder_.File("alone")), seen = Losses(folder_.File(run));
    ASSERT_EQ(expected.size(), 2u * 9);
    ASSERT_EQ(seen.size(), expected.size());
    for (size_t i = 0; i < seen.size(); ++i)
      EXPECT_NEAR(seen[i], expected[i], 1e-9 * std::abs(expected[i])) << "step " << i;
  }

  std::string data_;
};

TEST_F(TrainingTest, ThreeWorkersTrainLikeOne) {
  const auto training = Train({"--standalone", "--nproc_per_node", "3"}, Trainer("three"));
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_TRUE(training->WaitForLine("[cnnA0]:test accuracy  ", Seconds(0))) << training->Text();
  ExpectLikeOneWorker("three");
}

TEST_F(TrainingTest, AKilledWorkerIsNamedAndNothingIsLeft) {
  const auto training = Train({"--standalone", "--nproc_per_node", "2", "--max_restarts", "0"},
                              Trainer("killed", {"--epochs", "100000", "--log_every", "1"}));
  ASSERT_TRUE(training->WaitForLine("[cnnA0]:epoch 2/100000")) << training->Text();
  std::vector<pid_t> workers;
  for (const pid_t pid : mark_.Alive()) {
    if (support::ReadText(absl::StrCat("/proc/", pid, "/comm")) == "cnnA\n") workers.push_back(pid);
  }
  ASSERT_EQ(workers.size(), 2u);
  kill(workers.back(), SIGKILL);
  // The survivor's group is told by the operating system, mtrun by the pidfd; a second is ample on an idle
  // machine.
  ASSERT_EQ(training->Wait(Seconds(20)), 137) << training->Text();
  EXPECT_THAT(training->Text(),
              AllOf(HasSubstr("cnnA FAILED"), HasSubstr(absl::StrCat("pid ", workers.back())),
                    HasSubstr("SIGKILL"), HasSubstr("stderr.log"), HasSubstr("host")));
}

TEST_F(TrainingTest, TwoNodesTrainTogetherOverTcp) {
  const auto made = support::TwoNodes::Make();
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  const support::TwoNodes& nodes = **made;
  std::vector<std::unique_ptr<Program>> agents;
  for (int node = 0; node < 2; ++node) {
    std::vector<std::string> args = {"--nnodes",         "2",
                                     "--nproc_per_node", node == 0 ? "2" : "1",
                                     "--node_rank",      absl::StrCat(node),
                                     "--rdzv_endpoint",  nodes.Address(0) + ":29400"};
    const std::vector<std::string> trainer = Trainer("nodes");
    args.insert(args.end(), trainer.begin(), trainer.end());
    support::Overlay overlay = Environment();
    overlay["HOME"] = folder_.path();  // both nodes share it, and so the token
    agents.push_back(std::make_unique<Program>(nodes.On(node, Command(args)), overlay));
  }
  for (const auto& agent : agents) ASSERT_EQ(agent->Wait(), 0) << agents[0]->Text() << agents[1]->Text();
  EXPECT_THAT(agents[0]->Text(), AllOf(HasSubstr("2 nodes, world size 3"), HasSubstr("3 on 2 nodes")));
  ExpectLikeOneWorker("nodes");
}

}  // namespace
}  // namespace mtrun::e2e
