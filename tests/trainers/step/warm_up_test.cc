#include "trainers/step/warm_up.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "base/posix.h"
#include "tests/trainers/support/packed_set.h"
#include "trainers/input/dataset_source.h"
#include "trainers/models/resnet.h"
#include "trainers/models/unet.h"
#include "trainers/models/vit.h"
#include "trainers/step/train_state.h"
#include "trainers/tasks/classifier.h"
#include "trainers/tasks/diffusion_task.h"

namespace mtrun::trainers {
namespace {

/// Events in order.
using Events = std::vector<std::string>;

/// Records updates of the weights by the fused optimizers on this thread.
class UpdatesAsEvents {
 public:
  explicit UpdatesAsEvents(Events& events)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(Begin))) {
    to_ = &events;
  }
  ~UpdatesAsEvents() { at::removeCallback(handle_); }
  UpdatesAsEvents(const UpdatesAsEvents&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
    if (absl::StartsWith(function.name(), "aten::_fused_")) to_->push_back("update");
    return nullptr;
  }
  static inline Events* to_ = nullptr;
  const at::CallbackHandle handle_;
};

/// A capture that any device can replay, as in captured_step_test.cc.
class GraphAsEvents : public Graph {
 public:
  explicit GraphAsEvents(Events& events) : events_(events) {}
  void Capture(const std::function<void()>& work) override {
    work_ = work;
    events_.emplace_back("capture");
  }
  void Replay() override {
    events_.emplace_back("replay");
    work_();
  }

 private:
  Events& events_;
  std::function<void()> work_;
};

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

  /// Warms up with the training options `learning`, expects nothing to change, and returns the events.
  Events ExpectToChangeNothing(Task& task, const TrainState::Options& learning = {}, bool graph = false) {
    TrainState state(task.module(), learning);
    Events events;
    const UpdatesAsEvents updates(events);
    TrainStep::Options options{.seed = 1};
    if (graph) options.graphs = [&events] { return std::make_unique<GraphAsEvents>(events); };
    std::vector<std::pair<std::string, at::Tensor>> before;
    for (const auto& tensors : {state.Weights(), state.Rest()}) {
      for (const auto& [name, tensor] : tensors) before.emplace_back(name, tensor.detach().clone());
    }
    const absl::Status warm = WarmUp(task, *source_, state, options);
    EXPECT_TRUE(warm.ok()) << warm;
    size_t i = 0;
    for (const auto& tensors : {state.Weights(), state.Rest()}) {
      for (const auto& [name, tensor] : tensors) EXPECT_TRUE(tensor.equal(before[i++].second)) << name;
    }
    for (const at::Tensor& parameter : task.module().parameters()) EXPECT_FALSE(parameter.grad().defined());
    EXPECT_TRUE(task.module().is_training());
    return events;
  }

  const std::string folder_;
  std::unique_ptr<datasets::PackedSplit> data_;
  std::unique_ptr<DatasetSource> source_;
};

TEST_F(WarmUpTest, LeavesWeightsAndStatisticsUnchanged) {
  const auto task = Classify(AsModel(std::make_shared<models::ResNet>(1, models::kResNet32)), 10);
  EXPECT_EQ(ExpectToChangeNothing(*task), Events{"update"});
}

/// Momentum, moments, average and loss scale also belong to the run.
TEST_F(WarmUpTest, LeavesTheTrainingStateUnchanged) {
  const auto task = Classify(AsModel(std::make_shared<models::ResNet>(1, models::kResNet32)), 10);
  ExpectToChangeNothing(*task, {.optimizer = {.momentum = 0.9}, .clip_norm = 1});
  ExpectToChangeNothing(*task, {.optimizer = {.kind = OptimizerOptions::Kind::kAdamW, .weight_decay = 0.1},
                                .ema_decay = 0.9,
                                .loss_scaling = GradScaler::Options{.growth_interval = 1}});
}

/// As in the first steps of a run: the passes, the sums of a single worker, the update.
TEST_F(WarmUpTest, CapturesPassesAndUpdateAndReplaysThem) {
  const auto task = Classify(AsModel(std::make_shared<models::ResNet>(1, models::kResNet32)), 10);
  EXPECT_EQ(ExpectToChangeNothing(*task, {.clip_norm = 1, .ema_decay = 0.9}, /*graph=*/true),
            (Events{"update", "update", "update", "capture", "replay", "capture", "replay", "update"}));
}

/// Updates are skipped until the loss scale suits the first batch.
TEST_F(WarmUpTest, SkippedStepsDoNotDelayTheCapture) {
  int passes = 0;
  Model model = AsModel(std::make_shared<models::ResNet>(1, models::kResNet32));
  model.forward = [&passes, forward = model.forward](const at::Tensor& images) {
    const at::Tensor scores = forward(images);
    return ++passes == 1 ? scores * HUGE_VAL : scores;
  };
  const auto task = Classify(model, 10);
  const TrainState::Options learning{.loss_scaling = GradScaler::Options{}};
  EXPECT_EQ(
      ExpectToChangeNothing(*task, learning, /*graph=*/true),
      (Events{"update", "update", "capture", "replay", "update", "replay", "capture", "replay", "update"}));
  passes = 0;
  EXPECT_EQ(ExpectToChangeNothing(*task, learning), Events{"update"}) << "of the second step";
}

/// The run's own steps will report the error.
TEST_F(WarmUpTest, GivesUpIfNumbersAreNeverFinite) {
  int passes = 0;
  Model model = AsModel(std::make_shared<models::ResNet>(1, models::kResNet32));
  model.forward = [&passes, forward = model.forward](const at::Tensor& images) {
    ++passes;
    return forward(images) * HUGE_VAL;
  };
  const auto task = Classify(model, 10);
  EXPECT_EQ(ExpectToChangeNothing(*task), Events{});
  EXPECT_EQ(passes, 1);
  EXPECT_EQ(ExpectToChangeNothing(*task, {.loss_scaling = GradScaler::Options{}}), Events{});
  EXPECT_EQ(passes, 1 + 64);
}

TEST_F(WarmUpTest, NetworkWithDropoutHasAStream) {
  const auto net = std::make_shared<models::VisionTransformer>(1);
  Model model = AsModel(net);
  model.set_stream = [net](at::Tensor stream) { net->SetStream(std::move(stream)); };
  const auto task = Classify(model, 10);
  ExpectToChangeNothing(*task);
}

TEST_F(WarmUpTest, TaskThatDrawsNoiseDrawsItBefore) {
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

TEST_F(WarmUpTest, ReportsErrors) {
  Model model = AsModel(std::make_shared<models::ResNet>(1, models::kResNet32));
  model.forward = [](const at::Tensor& images) { return images.view({1, 1}); };
  const auto task = Classify(model, 10);
  TrainState state(task->module(), {});
  EXPECT_THAT(std::string(WarmUp(*task, *source_, state, {.seed = 1}).message()),
              ::testing::HasSubstr("first step to warm up: "));
}

}  // namespace
}  // namespace mtrun::trainers
