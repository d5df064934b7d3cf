// Compares captured steps with ordinary ones. The capture works on any device: like a CUDA graph, it repeats
// the same work on the first inputs. A value that bypasses the capture's inputs changes a weight.
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/questions.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/input/dataset_source.h"
#include "trainers/models/batch_norm.h"
#include "trainers/models/dropout.h"
#include "trainers/step/train_step.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

using testing::RunRanks;

struct Counts {
  int captured = 0, replayed = 0;
};

class Remembered : public Graph {
 public:
  explicit Remembered(Counts& counts) : counts_(counts) {}
  void Capture(const std::function<void()>& work) override {
    work_ = work;
    ++counts_.captured;
  }
  void Replay() override {
    const testing::Questions questions;
    work_();
    EXPECT_EQ(questions.asked(), 0) << "a capture cannot wait for its device";
    ++counts_.replayed;
  }

 private:
  Counts& counts_;
  std::function<void()> work_;
};

/// Behaves like CUDA if the work waits for the device.
struct Forbidden : public Graph {
  void Capture(const std::function<void()>&) override {
    throw std::runtime_error("CUDA error: operation not permitted when stream is capturing");
  }
  void Replay() override { ADD_FAILURE() << "nothing was captured"; }
};

/// A network of convolution, batch normalisation, dropout and a last layer.
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
  std::vector<datasets::SampleSum> gathered;
  std::vector<double> losses;
  std::vector<int64_t> correct;
  NamedTensors state;
};

class CapturedStepTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSteps = 12;  // 5 an epoch, with 3, 3, 3, 3 and 1 micro-batches

  CapturedStepTest() : folder_(*MakeTemporaryFolder("mtrun_captured_")) {}
  ~CapturedStepTest() override { std::filesystem::remove_all(folder_); }

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
    DatasetSource source(*data_, options_, {.resident = resident_});
    const auto net = std::make_shared<TinyNet>();
    Model model = AsModel(net);
    model.set_stream = [net](at::Tensor stream) { net->drop.SetStream(std::move(stream)); };
    ClassifierTask task(model, MeanCrossEntropy, 10);
    TrainState::Options learning{.optimizer = {.kind = OptimizerOptions::Kind::kAdamW, .weight_decay = 0.01},
                                 .clip_norm = 0.5,
                                 .ema_decay = 0.9};
    if (scaled_) learning.loss_scaling = GradScaler::Options{.initial_scale = 1024, .growth_interval = 4};
    TrainState state(*net, learning);
    DataParallel dp(state.trained(), group, DataParallel::kDefaultBucketBytes,
                    graphs ? DataParallel::Gradients::kFixed : DataParallel::Gradients::kFree);
    std::set<int64_t> refused = graphs ? refused_ : std::set<int64_t>();
    int64_t step = 0;
    TrainStep runner(task, source, dp, state, {.seed = 7, .graphs = graphs, .may_commit = [&] {
                                                 return refused.erase(step) == 0
                                                            ? absl::OkStatus()
                                                            : absl::UnavailableError("the lease is over");
                                               }});
    Trained trained;
    for (; step < kSteps; ++step) {
      const double rate = 0.01 / static_cast<double>(step + 1);
      auto result = runner.Run(step, rank, world, rate);
      if (absl::IsUnavailable(result.status())) result = runner.Run(step, rank, world, rate);
      if (!result.ok()) {
        ADD_FAILURE() << result.status();
        break;
      }
      trained.gathered.push_back(result->gathered);
      trained.losses.push_back(result->loss);
      trained.correct.push_back(result->correct);
    }
    for (const auto& tensors : {state.Weights(), state.Rest()}) {
      for (const auto& [name, tensor] : tensors) trained.state.emplace_back(name, tensor.detach().clone());
    }
    return trained;
  }

  /// Expects results that are bit-identical except for the losses, which the host sums in float64.
  void ExpectSameAsOrdinarySteps(int world, Counts want) {
    RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
      const Trained ordinary = Train(rank, world, group, nullptr);
      Counts counts;
      const Trained captured =
          Train(rank, world, group, [&] { return std::make_unique<Remembered>(counts); });
      EXPECT_EQ(counts.captured, want.captured);
      EXPECT_EQ(counts.replayed, want.replayed);
      EXPECT_EQ(captured.gathered, ordinary.gathered);
      EXPECT_EQ(captured.gathered[0].count, options_.plan.global_batch);
      EXPECT_EQ(captured.correct, ordinary.correct);
      ASSERT_EQ(captured.losses.size(), ordinary.losses.size());
      for (size_t k = 0; k < ordinary.losses.size(); ++k) {
        EXPECT_NEAR(captured.losses[k], ordinary.losses[k], 1e-6 * ordinary.losses[k]) << "step " << k;
      }
      ASSERT_EQ(captured.state.size(), ordinary.state.size());
      for (size_t i = 0; i < ordinary.state.size(); ++i) {
        EXPECT_TRUE(captured.state[i].second.equal(ordinary.state[i].second)) << ordinary.state[i].first;
      }
    });
  }

  const std::string folder_;
  std::unique_ptr<datasets::PackedSplit> data_;
  SourceOptions options_;
  bool resident_ = false, scaled_ = false;
  std::set<int64_t> refused_;  // steps whose first attempt must not be committed when they are captured
};

/// The first three of 12 steps are warm-up and two are short; updates do not depend on the length of steps.
constexpr Counts kOfTwelve = {.captured = 2, .replayed = 7 + 9};

TEST_F(CapturedStepTest, EqualOrdinarySteps) { ExpectSameAsOrdinarySteps(1, kOfTwelve); }

TEST_F(CapturedStepTest, WorkWithResidentImages) {
  resident_ = true;
  ExpectSameAsOrdinarySteps(1, kOfTwelve);
}

TEST_F(CapturedStepTest, WorkWithLossScaling) {
  scaled_ = true;
  ExpectSameAsOrdinarySteps(1, kOfTwelve);
}

/// In a short step the second worker is idle.
TEST_F(CapturedStepTest, WorkWithSeveralWorkers) { ExpectSameAsOrdinarySteps(2, kOfTwelve); }

/// The commit is refused between captured passes and captured update; no effect of the passes may remain.
TEST_F(CapturedStepTest, AreRepeatedIfTheCommitIsRefused) {
  refused_ = {6, 8};
  ExpectSameAsOrdinarySteps(2, {.captured = 2, .replayed = 7 + 2 + 9});
}

TEST(CapturedStep, FailedCaptureExplainsWhatToDo) {
  CapturedStep step([] { return std::make_unique<Forbidden>(); });
  try {
    step.Run(CapturePlan::Action::kCapture, {}, [](const std::vector<PassInputs>&) {});
    ADD_FAILURE() << "it was captured";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(),
                 "a step of this program cannot be captured as a CUDA graph; leave out --graph: CUDA error: "
                 "operation not permitted when stream is capturing");
  }
}

TEST_F(CapturedStepTest, RandAugmentStaysOutsideOfTheCapture) {
  options_.warps.rand_augment = 2;
  ExpectSameAsOrdinarySteps(1, kOfTwelve);
}

}  // namespace
}  // namespace mtrun::trainers
