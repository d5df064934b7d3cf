#include "trainers/step/warm_up.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/questions.h"
#include "trainers/input/dataset_source.h"
#include "trainers/models/resnet18.h"
#include "trainers/models/unet.h"
#include "trainers/models/vit.h"
#include "trainers/step/train_state.h"
#include "trainers/tasks/classifier.h"
#include "trainers/tasks/diffusion_task.h"

namespace mtrun::trainers {
namespace {

class WarmUpTest : public ::testing::Test {
 protected:
  WarmUpTest() : folder_(*MakeTemporaryFolder("mtrun_warm_up_")) {
    const std::string path =
        testing::WritePackedSet(folder_, "set", {.train = 8, .test = 1}, testing::LearnablePixel);
    auto split = datasets::PackedSplit::Open(path, "train");
    EXPECT_TRUE(split.ok()) << split.status();
    data_ = std::make_unique<datasets::PackedSplit>(*std::move(split));
    SourceOptions options;
    options.plan = {.global_batch = 8, .micro_batch = 4};
    source_ = std::make_unique<DatasetSource>(*data_, options, BatchOptions{});
  }
  ~WarmUpTest() override { std::filesystem::remove_all(folder_); }

  void ExpectToChangeNothing(Task& task) {
    TrainState state(task.module(), {});
    std::vector<std::pair<std::string, at::Tensor>> before;
    for (const auto& tensors : {state.Weights(), state.Rest()}) {
      for (const auto& [name, tensor] : tensors) before.emplace_back(name, tensor.detach().clone());
    }
    const testing::Questions questions;
    const absl::Status warm = WarmUp(task, *source_, 1, Precision::kFp32);
    ASSERT_TRUE(warm.ok()) << warm;
    EXPECT_EQ(questions.asked(), 1)
        << "a pass does not wait for the device; its loss at the end is waited for";
    size_t i = 0;
    for (const auto& tensors : {state.Weights(), state.Rest()}) {
      for (const auto& [name, tensor] : tensors) EXPECT_TRUE(tensor.equal(before[i++].second)) << name;
    }
    for (const at::Tensor& parameter : task.module().parameters()) EXPECT_FALSE(parameter.grad().defined());
    EXPECT_TRUE(task.module().is_training());
  }

  const std::string folder_;
  std::unique_ptr<datasets::PackedSplit> data_;
  std::unique_ptr<DatasetSource> source_;
};

TEST_F(WarmUpTest, LeavesWeightsAndStatisticsAsTheyAre) {
  const auto task = Classify(AsModel(std::make_shared<models::ResNet18>(1, models::kStem32)), 10);
  ExpectToChangeNothing(*task);
}

TEST_F(WarmUpTest, ANetworkThatDropsHasAStreamToDrawFrom) {
  const auto net = std::make_shared<models::VisionTransformer>(1);
  Model model = AsModel(net);
  model.set_stream = [net](at::Tensor stream) { net->SetStream(std::move(stream)); };
  const auto task = Classify(model, 10);
  ExpectToChangeNothing(*task);
}

TEST_F(WarmUpTest, ATaskThatDrawsNoiseDrawsItBefore) {
  models::UnetOptions options;
  options.channels = 4;
  options.blocks = 1;
  options.mults = {1, 2};
  options.attention = {};
  const auto net = std::make_shared<models::Unet>(1, options);
  DiffusionTask task(net,
                     [net](const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels) {
                       return net->forward(x, t, labels);
                     },
                     {.seed = 1});
  ExpectToChangeNothing(task);
}

TEST_F(WarmUpTest, SaysWhatWentWrong) {
  Model model = AsModel(std::make_shared<models::ResNet18>(1, models::kStem32));
  model.forward = [](const at::Tensor& images) { return images.view({1, 1}); };
  const auto task = Classify(model, 10);
  EXPECT_THAT(std::string(WarmUp(*task, *source_, 1, Precision::kFp32).message()),
              ::testing::HasSubstr("a first pass to warm up: "));
}

}  // namespace
}  // namespace mtrun::trainers
