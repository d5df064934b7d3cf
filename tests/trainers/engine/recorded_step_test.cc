// Recorded steps against ordinary ones, with a recording that any device can play: the same work again, on
// the inputs of the first time, as a CUDA graph does it. What bypasses the recording's inputs changes a
// weight.
#include <cmath>
#include <filesystem>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"
#include "tests/trainers/engine/support/packed_set.h"
#include "tests/trainers/engine/support/rank_threads.h"
#include "trainers/engine/classifier.h"
#include "trainers/engine/dataset_shards.h"
#include "trainers/models/batch_norm.h"
#include "trainers/models/dropout.h"

namespace mtrun::engine {
namespace {

using testing::RunRanks;

struct Counts {
  int recorded = 0, replayed = 0;
};

class Remembered : public Graph {
 public:
  explicit Remembered(Counts& counts) : counts_(counts) {}
  void Record(const std::function<void()>& work, const std::vector<at::Generator>&) override {
    work_ = work;
    ++counts_.recorded;
  }
  void Replay() override {
    work_();
    ++counts_.replayed;
  }

 private:
  Counts& counts_;
  std::function<void()> work_;
};

/// Convolution, batch normalisation, dropout, a last layer.
struct TinyNet : torch::nn::Module {
  TinyNet() : norm(register_module("norm", std::make_shared<models::BatchNorm>(4))) {
    conv = register_parameter("conv", Wave({4, 3, 4, 4}));
    last = register_parameter("last", Wave({4, 10}));
  }
  static at::Tensor Wave(at::IntArrayRef shape) {
    int64_t numel = 1;
    for (const int64_t n : shape) numel *= n;
    return at::arange(numel, at::kFloat).mul(1.7).sin().mul(0.3).view(shape);
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = norm->forward(at::conv2d(images, conv, {}, /*stride=*/4)).relu();
    if (is_training()) x = drop.Elements(x, 0.3);
    return x.mean({2, 3}).matmul(last);
  }
  std::shared_ptr<models::BatchNorm> norm;
  at::Tensor conv, last;
  models::DropoutSource drop;
};

struct Trained {
  std::vector<double> losses;
  std::vector<int64_t> correct;
  NamedTensors state;
};

class RecordedStepTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSteps = 12;  // 5 an epoch, of 3, 3, 3, 3 and 1 micro-batches

  RecordedStepTest() : folder_(*MakeTemporaryFolder("mtrun_recorded_")) {}
  ~RecordedStepTest() override { std::filesystem::remove_all(folder_); }

  void SetUp() override {
    const std::string set = testing::WritePackedSet(
        folder_, "set", {.height = 30, .width = 30, .train = 50, .test = 1}, testing::LearnablePixel);
    auto split = datasets::PackedSplit::Open(set, "train");
    ASSERT_TRUE(split.ok()) << split.status();
    data_ = std::make_unique<datasets::PackedSplit>(*std::move(split));
    options_.plan = {.global_batch = 12, .micro_batch = 4};
    options_.augmentation = {.flip = true, .crop_padding = 2};
    options_.warps = {.rotation = 10, .erasing = 0.5};
  }

  Trained Train(int rank, int world, const collectives::ProcessGroup& group, const GraphFactory& graphs) {
    DatasetShards source(*data_, options_, {.resident = resident_});
    const auto net = std::make_shared<TinyNet>();
    Model model = AsModel(net);
    model.set_generator = [net](at::Generator generator) { net->drop.SetGenerator(std::move(generator)); };
    ClassifierTask task(model, MeanCrossEntropy, 10);
    Learner::Options learning{.optimizer = {.kind = OptimizerOptions::Kind::kAdamW, .weight_decay = 0.01},
                              .clip_norm = 0.5,
                              .ema_decay = 0.9};
    if (scaled_) learning.loss_scaling = GradScaler::Options{.initial_scale = 1024, .growth_interval = 4};
    Learner learner(*net, learning);
    DataParallel dp(learner.trained(), group, StepRunner::kStats);
    StepRunner runner(task, source, dp, learner, {.seed = 7, .graphs = graphs});
    Trained trained;
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto result = runner.Run(step, rank, world, 0.01 / static_cast<double>(step + 1));
      if (!result.ok()) {
        ADD_FAILURE() << result.status();
        break;
      }
      trained.losses.push_back(result->loss);
      trained.correct.push_back(result->correct);
    }
    for (const auto& tensors : {learner.Weights(), learner.Rest()}) {
      for (const auto& [name, tensor] : tensors) trained.state.emplace_back(name, tensor.detach().clone());
    }
    return trained;
  }

  /// Bit for bit, but for the losses: the host adds them up in float64.
  void ExpectSameAsOrdinarySteps(int world, Counts want) {
    RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
      const Trained ordinary = Train(rank, world, group, nullptr);
      Counts counts;
      const Trained recorded =
          Train(rank, world, group, [&] { return std::make_unique<Remembered>(counts); });
      EXPECT_EQ(counts.recorded, want.recorded);
      EXPECT_EQ(counts.replayed, want.replayed);
      EXPECT_EQ(recorded.correct, ordinary.correct);
      ASSERT_EQ(recorded.losses.size(), ordinary.losses.size());
      for (size_t k = 0; k < ordinary.losses.size(); ++k) {
        EXPECT_NEAR(recorded.losses[k], ordinary.losses[k], 1e-6 * ordinary.losses[k]) << "step " << k;
      }
      ASSERT_EQ(recorded.state.size(), ordinary.state.size());
      for (size_t i = 0; i < ordinary.state.size(); ++i) {
        EXPECT_TRUE(recorded.state[i].second.equal(ordinary.state[i].second)) << ordinary.state[i].first;
      }
    });
  }

  const std::string folder_;
  std::unique_ptr<datasets::PackedSplit> data_;
  TrainOptions options_;
  bool resident_ = false, scaled_ = false;
};

/// Of 12 steps the first three are warm-up and two are short; updates know no short steps.
constexpr Counts kOfTwelve = {.recorded = 2, .replayed = 7 + 9};

TEST_F(RecordedStepTest, AreTheSteps) { ExpectSameAsOrdinarySteps(1, kOfTwelve); }

TEST_F(RecordedStepTest, OverResidentImages) {
  resident_ = true;
  ExpectSameAsOrdinarySteps(1, kOfTwelve);
}

TEST_F(RecordedStepTest, WithLossScaling) {
  scaled_ = true;
  ExpectSameAsOrdinarySteps(1, kOfTwelve);
}

/// In a short step the second worker has nothing to do.
TEST_F(RecordedStepTest, OfSeveralWorkers) { ExpectSameAsOrdinarySteps(2, kOfTwelve); }

TEST_F(RecordedStepTest, RandAugmentStaysOutsideOfTheRecording) {
  options_.warps.rand_augment = 2;
  ExpectSameAsOrdinarySteps(1, kOfTwelve);
}

}  // namespace
}  // namespace mtrun::engine
