// Training that survives: whatever dies, leaves or joins, and whenever, the run is the undisturbed one.
// float64, so that every step's loss can be compared, and the ledger proves that every sample was consumed
// exactly once.
#include <signal.h>

#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/launcher.h"
#include "tests/trainers/engine/support/packed_set.h"

namespace mtrun::e2e {
namespace {

using engine::testing::LearnablePixel;
using engine::testing::WritePackedSet;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kStepsPerEpoch = 9;

class ElasticTrainingTest : public LauncherTest {
 protected:
  void SetUp() override {
    data_ = WritePackedSet(folder_.path(), "data", {.train = 100, .test = 40}, LearnablePixel);
  }

  /// mtrun's arguments, then those of cnnA: 12 samples a step in micro-batches of 2, the last step of an
  /// epoch 4.
  std::unique_ptr<Program> Train(std::vector<std::string> args, const std::string& run, int epochs,
                                 const std::string& faults = "", const std::vector<std::string>& more = {}) {
    const std::vector<std::string> trainer = {"--trainer",       "cnnA",
                                              "--data",          data_,
                                              "--model_folder",  folder_.File(run),
                                              "--epochs",        absl::StrCat(epochs),
                                              "--batch_size",    "2",
                                              "--global_batch",  "12",
                                              "--precision",     "float64",
                                              "--learning_rate", "0.05",
                                              "--momentum",      "0.9",
                                              "--threads",       "1"};
    args.insert(args.end(), trainer.begin(), trainer.end());
    args.insert(args.end(), more.begin(), more.end());
    support::Overlay overlay = Environment();
    if (!faults.empty()) overlay["MTRUN_FAULTS"] = faults;
    return std::make_unique<Program>(Command(args), overlay);
  }
  std::unique_ptr<Program> TrainHere(int workers, const std::string& run, int epochs,
                                     const std::string& faults = "",
                                     const std::vector<std::string>& more = {}) {
    return Train({"--standalone", "--nproc_per_node", absl::StrCat(workers)}, run, epochs, faults, more);
  }
  std::unique_ptr<Program> TrainNode(int rank, const std::string& run, int epochs) {
    return Train({"--nnodes", "1:2", "--nproc_per_node", "1", "--rdzv_endpoint", endpoint_, "--rdzv_conf",
                  "last_call_timeout=0.1", "--node_rank", absl::StrCat(rank)},
                 run, epochs);
  }

  /// The loss of every step that counts: a rewind takes back what stands before it.
  std::map<int64_t, double> Losses(const std::string& run) const {
    std::map<int64_t, double> losses;
    for (const absl::string_view line :
         absl::StrSplit(support::ReadText(folder_.File(run) + "/metrics.jsonl"), '\n', absl::SkipEmpty())) {
      const auto json = nlohmann::json::parse(std::string(line), nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) continue;  // what a killed writer left of a line
      if (json.contains("rewind")) losses.erase(losses.lower_bound(json["rewind"]), losses.end());
      if (json.contains("step")) losses[json["step"]] = json["loss"];
    }
    return losses;
  }

  void ExpectUndisturbed(const std::string& run, int epochs) {
    const auto alone = TrainHere(1, "alone", epochs);
    ASSERT_EQ(alone->Wait(), 0) << alone->Text();
    const auto expected = Losses("alone"), seen = Losses(run);
    ASSERT_EQ(expected.size(), static_cast<size_t>(epochs * kStepsPerEpoch));
    ASSERT_EQ(seen.size(), expected.size());
    for (const auto& [step, loss] : expected)
      EXPECT_NEAR(seen.at(step), loss, 1e-9 * std::abs(loss)) << "step " << step;
    ExpectExactlyOnce({run});
  }

  void ExpectExactlyOnce(const std::vector<std::string>& runs, bool partial = false) {
    std::vector<std::string> command = {"python3", support::TestFile("../tools/verify_ledger")};
    for (const std::string& run : runs) command.push_back(folder_.File(run));
    if (partial) command.push_back("--partial");
    Program verify(command);
    EXPECT_EQ(verify.Wait(), 0) << verify.Text();
  }

  std::set<pid_t> Workers() const {
    std::set<pid_t> workers;
    for (const pid_t pid : mark_.Alive()) {
      if (support::ReadText(absl::StrCat("/proc/", pid, "/comm")) == "cnnA\n") workers.insert(pid);
    }
    return workers;
  }

  std::string data_;
};

struct FaultCase {
  int world;
  const char* fault;
};
void PrintTo(const FaultCase& value, std::ostream* out) {
  *out << value.world << " workers, " << value.fault;
}

class FaultPlanTest : public ElasticTrainingTest, public testing::WithParamInterface<FaultCase> {};

TEST_P(FaultPlanTest, TheRunIsTheUndisturbedOne) {
  const auto [world, fault] = GetParam();
  const auto training = TrainHere(world, "faulty", 3, fault, {"--checkpoint_steps", "4"});
  ASSERT_EQ(training->Wait(), 0) << training->Text();
  EXPECT_THAT(training->Text(),
              AllOf(HasSubstr("fault fired: "), HasSubstr("going on with "), Not(HasSubstr("resumed from"))))
      << "survivors carry the run, no checkpoint is read";
  ExpectUndisturbed("faulty", 3);
}

INSTANTIATE_TEST_SUITE_P(
    Places, FaultPlanTest,
    testing::Values(
        FaultCase{2, "rank=1 step=5 at=forward do=kill"}, FaultCase{2, "rank=0 step=5 at=backward do=kill"},
        FaultCase{3, "rank=1 step=8 at=allreduce do=kill"}, FaultCase{3, "rank=0 step=13 at=apply do=kill"},
        FaultCase{2, "rank=0 step=12 at=save do=kill"}, FaultCase{3, "rank=2 step=18 at=eval do=kill"},
        FaultCase{4, "rank=0 step=0 at=forward do=exit"}, FaultCase{2, "rank=1 step=10 at=backward do=leave"},
        FaultCase{3, "rank=0 step=11 at=forward do=leave"},
        FaultCase{4, "rank=0 step=5 at=backward do=kill; rank=3 step=5 at=forward do=kill"}));

TEST_F(ElasticTrainingTest, SurvivorsKeepTheirProcessAndADrainSavesARunThatResumesElsewhere) {
  const auto training = TrainHere(3, "long", 100000, "", {"--log_every", "50"});
  ASSERT_TRUE(training->WaitForLine("epoch 3/100000")) << training->Text();
  const std::set<pid_t> before = Workers();
  ASSERT_EQ(before.size(), 3u);
  kill(*before.begin(), SIGKILL);
  ASSERT_TRUE(training->WaitForLine("going on with 3 workers")) << training->Text();
  const std::set<pid_t> after = Workers();
  std::set<pid_t> kept;
  std::set_intersection(before.begin(), before.end(), after.begin(), after.end(),
                        std::inserter(kept, kept.begin()));
  EXPECT_EQ(kept.size(), 2u);
  training->Signal(SIGTERM);
  EXPECT_EQ(training->Wait(), 143) << training->Text();
  EXPECT_THAT(training->Text(),
              AllOf(HasSubstr("stopped at step "), HasSubstr("the same command goes on from")));
  ExpectExactlyOnce({"long"}, /*partial=*/true);

  const auto losses = Losses("long");
  const int epochs = static_cast<int>(losses.size()) / kStepsPerEpoch + 2;
  const auto resumed = TrainHere(2, "long", epochs);
  ASSERT_EQ(resumed->Wait(), 0) << resumed->Text();
  EXPECT_THAT(resumed->Text(), HasSubstr("resumed from"));
  ExpectUndisturbed("long", epochs);
}

TEST_F(ElasticTrainingTest, EverythingKilledAtOnceGoesOnFromTheNewestCheckpoint) {
  const auto training = TrainHere(2, "run", 100000, "", {"--checkpoint_steps", "7", "--log_every", "50"});
  ASSERT_TRUE(training->WaitForLine("epoch 4/100000")) << training->Text();
  for (const pid_t pid : mark_.Alive()) kill(pid, SIGKILL);
  ASSERT_EQ(training->Wait(), 137);
  const int epochs = static_cast<int>(Losses("run").size()) / kStepsPerEpoch + 2;
  const auto resumed = TrainHere(3, "run", epochs);
  ASSERT_EQ(resumed->Wait(), 0) << resumed->Text();
  EXPECT_THAT(resumed->Text(), HasSubstr("resumed from"));
  ExpectUndisturbed("run", epochs);
}

TEST_F(ElasticTrainingTest, NodesJoinAndLeaveWhileTheOthersTrain) {
  const auto first = TrainNode(0, "nodes", 100000);
  ASSERT_TRUE(first->WaitForLine("epoch 2/100000")) << first->Text();
  const std::set<pid_t> before = Workers();
  const auto second = TrainNode(1, "nodes", 100000);
  ASSERT_TRUE(first->WaitForLine("going on with 2 workers")) << first->Text() << second->Text();
  second->Signal(SIGTERM);
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  ASSERT_TRUE(first->WaitForLine("going on with 1 worker at")) << first->Text();
  EXPECT_EQ(Workers(), before);
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143) << first->Text();
  ExpectExactlyOnce({"nodes"}, /*partial=*/true);
}

TEST_F(ElasticTrainingTest, ARestartWithOtherSettingsIsRefusedWithTheDifferences) {
  ASSERT_EQ(TrainHere(1, "run", 1)->Wait(), 0);
  const auto other =
      Train({"--standalone", "--max_restarts", "0"}, "run", 2, "", {"--learning_rate", "0.01"});
  EXPECT_EQ(other->Wait(), 1) << other->Text();
  EXPECT_THAT(other->Text(), AllOf(HasSubstr("learning_rate is 0.01, the checkpoint has 0.05"),
                                   HasSubstr("--resume=false")));
  const auto anew = TrainHere(1, "run", 1, "", {"--learning_rate", "0.01", "--resume=false"});
  EXPECT_EQ(anew->Wait(), 0) << anew->Text();
  EXPECT_THAT(anew->Text(), HasSubstr("previous_1"));
  EXPECT_FALSE(support::ReadText(folder_.File("run") + "/previous_1/ledger.jsonl").empty());
}

TEST_F(ElasticTrainingTest, TheVerifierSeesWhatIsLostRepeatedOrChanged) {
  ASSERT_EQ(TrainHere(1, "run", 2)->Wait(), 0);
  ExpectExactlyOnce({"run"});
  const std::string path = folder_.File("run") + "/ledger.jsonl";
  const std::string good = support::ReadText(path);
  const auto verdict = [&](const std::string& text) {
    support::WriteText(path, text);
    Program verify({"python3", support::TestFile("../tools/verify_ledger"), folder_.File("run")});
    EXPECT_EQ(verify.Wait(), 1) << verify.Text();
    return verify.Text();
  };
  const size_t third = good.find("{\"step\":2,"), fourth = good.find("{\"step\":3,");
  ASSERT_TRUE(third != std::string::npos && fourth != std::string::npos);
  EXPECT_THAT(verdict(good.substr(0, third) + good.substr(fourth)),
              AllOf(HasSubstr("1 steps are lost, the first is 2"), HasSubstr("the chain is broken"),
                    HasSubstr("12 samples are lost")));
  std::string changed = good;
  changed[changed.find("\"ids\":\"", fourth) + 7] ^= 1;
  EXPECT_THAT(verdict(changed), AllOf(HasSubstr("consumed other samples"), HasSubstr("the chain is broken")));
  EXPECT_THAT(verdict(good.substr(0, good.rfind("{\"step\":17,"))), HasSubstr("the last epoch is not whole"));
}

}  // namespace
}  // namespace mtrun::e2e
