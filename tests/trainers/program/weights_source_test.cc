#include "trainers/program/weights_source.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "tests/support/program.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/loop/best_weights.h"

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The folder of a run of three epochs of six steps, whose second epoch's weights were tested.
class WeightsSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    support::WriteText(folder_.File("report.json"),
                       R"({"tested_epoch":2,"history":[{"eval":1,"steps":6},{"eval":2,"steps":12},)"
                       R"({"eval":3,"steps":18}]})");
    ASSERT_TRUE(SaveTensors(folder_.File("model.safetensors"), kTensors, WeightsMetadata({}, 18, 3)).ok());
  }
  void WriteBest(int64_t epoch) const {
    ASSERT_TRUE(SaveTensors(folder_.File(kBestFile), kTensors, WeightsMetadata({}, epoch * 6, epoch)).ok());
  }
  void WriteCheckpoint(int64_t steps) const {
    checkpoints::Snapshot snapshot;
    snapshot.step = steps;
    snapshot.state = checkpoints::EncodeRunState(
        {.run = 7, .position = {1, steps, true}, .identity = {}, .progress = nlohmann::json::object()});
    ASSERT_TRUE(checkpoints::WriteCheckpoint(checkpoints::RealFiles(), folder_.path(), snapshot, "1").ok());
  }
  /// Returns the path of the run's weights in its folder, or why there are none.
  std::string Found() const {
    const auto source = FindWeights(folder_.path());
    return source.ok() ? source->file.substr(folder_.path().size() + 1)
                       : std::string(source.status().message());
  }

  const NamedTensors kTensors = {{"weight", at::zeros({2})}};
  const support::TemporaryFolder folder_;
};

TEST_F(WeightsSourceTest, BestWeightsAreUsedIfTheyAreOfTheTestedEpoch) {
  WriteBest(2);
  WriteCheckpoint(12);
  EXPECT_EQ(Found(), kBestFile);
}

/// Their step was taken back, and its epoch was redone.
TEST_F(WeightsSourceTest, BestWeightsOfAnotherEpochAreNotUsed) {
  WriteBest(3);
  WriteCheckpoint(12);
  EXPECT_EQ(Found(), "step_12/model.safetensors");
}

TEST_F(WeightsSourceTest, CheckpointOfTheTestedEpochReplacesMissingBestWeights) {
  WriteCheckpoint(12);
  WriteCheckpoint(18);
  EXPECT_EQ(Found(), "step_12/model.safetensors");
}

TEST_F(WeightsSourceTest, FinalWeightsAreNotUsedInstead) {
  WriteBest(3);
  WriteCheckpoint(18);
  EXPECT_THAT(Found(), AllOf(HasSubstr("the report describes the weights of epoch 2"),
                             HasSubstr("neither model_best.safetensors nor a checkpoint")));
}

/// --evaluate, --predict and --export would show NaN, or take the file for another.
TEST_F(WeightsSourceTest, WeightsThatAreNoNumbersAreRefused) {
  const std::string path = folder_.File("nan.safetensors");
  ASSERT_TRUE(SaveTensors(path, {{"weight", at::full({2}, std::nan(""))}}, {}).ok());
  struct OneWeight : torch::nn::Module {
    OneWeight() { register_parameter("weight", at::zeros({2})); }
  };
  const absl::Status loaded = LoadInto(*FindWeights(path), OneWeight());
  EXPECT_THAT(std::string(loaded.message()),
              AllOf(HasSubstr(path), HasSubstr("weight has NaN in 2 of its 2 values")));
}

TEST_F(WeightsSourceTest, FinalWeightsAreUsedIfTheyWereTested) {
  support::WriteText(folder_.File("report.json"), R"({"tested_epoch":null,"history":[]})");
  WriteBest(3);
  EXPECT_EQ(Found(), "model.safetensors");
}

}  // namespace
}  // namespace mtrun::trainers
