#include "trainers/step/evaluate.h"

#include <cmath>
#include <mutex>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/questions.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/models/cnn_a.h"
#include "trainers/models/resnet.h"
#include "trainers/models/vit.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

/// A data set with `count` test images.
class TestImages {
 public:
  explicit TestImages(int64_t count)
      : split_(*datasets::PackedSplit::Open(
            testing::WritePackedSet(folder_.path(), "set", {.train = 1, .test = count},
                                    testing::LearnablePixel),
            "test")) {}
  const datasets::PackedSplit& split() const { return split_; }

 private:
  const support::TemporaryFolder folder_;
  const datasets::PackedSplit split_;
};

using testing::RunRanks;

/// 263 is divisible neither by the number of workers nor by the evaluation batch.
TEST(Evaluate, IsTheSameAndExactAtAnyWorldSize) {
  const TestImages set(263);
  const BatchMaker batches(set.split(), {.image_size = 32, .dtype = at::kDouble});
  std::vector<Evaluation> results;
  for (const int world : {1, 2, 3, 5}) {
    std::mutex mutex;
    RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
      const auto net = std::make_shared<models::CnnA>(7);
      net->to(at::kDouble);
      const auto task = Classify(AsModel(net), 10);
      const auto result =
          Evaluate(*task, batches, {.size = set.split().size(), .rank = rank, .world_size = world}, group);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(net->is_training());
      const std::lock_guard lock(mutex);
      results.push_back(*result);
    });
  }
  ASSERT_EQ(results.size(), 11u);
  for (const Evaluation& result : results) {
    EXPECT_EQ(result.matrix.total(), 263);
    EXPECT_EQ(result.matrix.counts(), results[0].matrix.counts());
    EXPECT_NEAR(result.loss, results[0].loss, 1e-12);
    EXPECT_EQ(result.notable, results[0].notable);
  }
  EXPECT_EQ(results[0].notable.uncertain().size(), NotableImages::kMost);
  for (int c = 0; c < 10; ++c) {
    int64_t row = 0;
    for (int p = 0; p < 10; ++p) row += results[0].matrix.at(c, p);
    EXPECT_EQ(row, c < 3 ? 27 : 26);
  }
}

TEST(Evaluate, EndsBeforeTheBatchIfCancelled) {
  const TestImages set(3 * kEvaluationBatch);
  const BatchMaker batches(set.split(), {.image_size = 32});
  const auto net = std::make_shared<models::CnnA>(7);
  const auto task = Classify(AsModel(net), 10);
  int asked = 0;
  const auto result = Evaluate(*task, batches, {.size = set.split().size()}, nullptr, [&asked] {
    return ++asked < 2 ? absl::OkStatus() : absl::CancelledError("told to go");
  });
  EXPECT_EQ(result.status(), absl::CancelledError("told to go"));
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(net->is_training());
}

/// The test sets the probability of each image's guess.
TEST(Evaluate, FindsConfidentMistakesAndUncertainImages) {
  const TestImages set(300);
  const BatchMaker batches(set.split(), {.image_size = 32});
  Model model = AsModel(std::make_shared<models::CnnA>(7));
  int64_t first = 0;
  // Image i has class i mod 10; guesses are class 3, with logits that grow with the image's number.
  model.forward = [&first](const at::Tensor& images) {
    at::Tensor logits = at::zeros({images.size(0), 10}, at::kDouble);
    for (int64_t i = 0; i < images.size(0); ++i) logits[i][3] = 0.01 * static_cast<double>(first + i + 1);
    first += images.size(0);
    return logits;
  };
  ClassifierTask task(model, MeanCrossEntropy, 10);
  const auto result = Evaluate(task, batches, {.size = 300}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  const NotableImages& notable = result->notable;
  ASSERT_EQ(notable.mistakes().size(), NotableImages::kMost);
  EXPECT_EQ(notable.mistakes()[0].image, 299);
  EXPECT_EQ(notable.mistakes()[0].label, 9);
  EXPECT_EQ(notable.mistakes()[0].guess, 3);
  EXPECT_NEAR(notable.mistakes()[0].probability, std::exp(3.0) / (std::exp(3.0) + 9), 1e-12);
  EXPECT_EQ(notable.mistakes()[6].image, 292) << "image 293 is right";
  EXPECT_EQ(notable.uncertain()[3].image, 3);
  EXPECT_EQ(notable.uncertain()[3].label, 3);
}

/// The test sets the rank of the label among the logits.
TEST(Evaluate, CountsTopFiveOfManyClasses) {
  constexpr int kClasses = kManyClasses;
  const TestImages set(30);
  const BatchMaker batches(set.split(), {.image_size = 32});
  const auto net = std::make_shared<models::CnnA>(7);
  for (const auto& [best, expected] : {std::pair{0, 1.0}, {4, 1.0}, {5, 0.0}}) {
    Model model = AsModel(net);
    // Image i has class i mod 10, which ranks after `best` other classes.
    model.forward = [best = best](const at::Tensor& images) {
      at::Tensor logits = at::zeros({images.size(0), kClasses});
      for (int64_t i = 0; i < images.size(0); ++i) {
        for (int k = 0; k < best; ++k) logits[i][10 + k] = 9;
        logits[i][i % 10] = 5;
      }
      return logits;
    };
    ClassifierTask task(model, MeanCrossEntropy, kClasses);
    const auto result = Evaluate(task, batches, {.size = 30}, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->top5);
    EXPECT_EQ(*result->top5, expected) << best;
    EXPECT_EQ(result->matrix.correct(), best == 0 ? 30 : 0);
  }
}

/// The loss of a test image depends on its label alone, even if training smooths labels.
TEST(Evaluate, DoesNotSmoothLabels) {
  const at::Tensor logits = at::arange(3, at::kDouble).mul(1.5).unsqueeze(0);
  const at::Tensor label = at::zeros({1}, at::kLong);
  const double own = MeanCrossEntropy(logits, label).item<double>();
  const at::Tensor log = logits.log_softmax(1);
  EXPECT_NEAR(LossOf({.smoothing = 0.3}, at::kCPU)(logits, label).item<double>(),
              0.7 * own - 0.3 * log.mean().item<double>(), 1e-6);
  EXPECT_EQ(LossOf({.smoothing = 0}, at::kCPU)(logits, label).item<double>(), own);
}

/// Evaluation computes in bfloat16 what training does, and counts the results as usual.
TEST(Evaluate, ComputesInThePrecisionOfTheSteps) {
  const TestImages set(30);
  const BatchMaker batches(set.split(), {.image_size = 32});
  const auto net = std::make_shared<models::CnnA>(7);
  std::set<at::ScalarType> logits;
  Model model = AsModel(net);
  model.forward = [&](const at::Tensor& images) {
    const at::Tensor out = net->forward(images);
    logits.insert(out.scalar_type());
    return out;
  };
  ClassifierTask task(model, MeanCrossEntropy, 10);
  const auto full = Evaluate(task, batches, {.size = 30}, nullptr);
  const auto half = Evaluate(task, batches, {.size = 30, .precision = Precision::kBf16}, nullptr);
  ASSERT_TRUE(full.ok() && half.ok()) << full.status() << half.status();
  EXPECT_EQ(logits, (std::set<at::ScalarType>{at::kFloat, at::kBFloat16}));
  EXPECT_NE(half->loss, full->loss);
  EXPECT_NEAR(half->loss, full->loss, 0.02 * full->loss);
  EXPECT_EQ(half->matrix.total(), 30);
}

/// No device has the memory for 250 images of 1024 x 1024.
TEST(Evaluate, ComputesFewerLargeImagesAtOnce) {
  const TestImages set(30);
  const BatchMaker batches(set.split(), {.image_size = 32});
  const auto net = std::make_shared<models::CnnA>(7);
  for (const auto& [image_size, largest] : {std::pair{32, 30}, {224, 30}, {1024, 11}, {8192, 1}}) {
    int64_t seen = 0;
    Model model = AsModel(net);
    model.forward = [&](const at::Tensor& images) {
      seen = std::max(seen, images.size(0));
      return net->forward(images);
    };
    ClassifierTask task(model, MeanCrossEntropy, 10);
    const auto result = Evaluate(task, batches, {.size = 30, .image_size = image_size}, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(seen, largest) << image_size;
  }
  for (const int image_size : {0, 28, 32, 224})
    EXPECT_EQ(EvaluationBatch(image_size, /*on_cpu=*/true), kEvaluationBatch);
}

/// Large images fill a device in smaller batches.
TEST(Evaluate, DeviceComputesMoreSmallImagesAtOnce) {
  for (const auto& [image_size, batch] : {std::pair{0, 1000}, {32, 1000}, {112, 1000}, {224, 250}, {448, 62}})
    EXPECT_EQ(EvaluationBatch(image_size, /*on_cpu=*/false), batch) << image_size;
}

/// Therefore a larger batch gives the same counts as smaller ones.
TEST(Evaluate, CountsDoNotDependOnTheBatch) {
  constexpr int64_t kImages = 60;
  const TestImages set(kImages);
  const BatchMaker batches(set.split(), {.image_size = 32});
  torch::NoGradGuard no_grad;
  std::vector<std::unique_ptr<Task>> tasks;
  tasks.push_back(Classify(AsModel(std::make_shared<models::CnnA>(7)), 10));
  tasks.push_back(Classify(AsModel(std::make_shared<models::ResNet>(7, models::kResNet32)), 10));
  tasks.push_back(Classify(AsModel(std::make_shared<models::VisionTransformer>(7)), 10));
  for (const auto& task : tasks) {
    task->module().eval();
    const auto sums_in = [&](int64_t at_once) {
      Task::Sums sums{at::zeros({1}, at::kDouble), at::zeros({100}, at::kLong), at::zeros({0}, at::kLong)};
      for (int64_t first = 0; first < kImages; first += at_once) {
        std::vector<int64_t> ids(static_cast<size_t>(at_once));
        std::iota(ids.begin(), ids.end(), first);
        task->Evaluate(batches.Make(ids, {}), first, sums);
      }
      return sums;
    };
    const Task::Sums large = sums_in(kImages), small = sums_in(15);
    EXPECT_TRUE(large.confusion.equal(small.confusion));
    EXPECT_EQ(large.confusion.sum().item<int64_t>(), kImages);
    EXPECT_NEAR(large.loss.item<double>(), small.loss.item<double>(), 1e-4 * kImages);
  }
}

/// There are three batches; on a device each query would wait for it.
TEST(Evaluate, QueriesTheDeviceOnce) {
  const TestImages set(3 * kEvaluationBatch);
  const BatchMaker batches(set.split(), {.image_size = 32});
  const auto task = Classify(AsModel(std::make_shared<models::CnnA>(7)), 10);
  testing::Questions questions;
  const auto result = Evaluate(*task, batches, {.size = set.split().size()}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(questions.asked(), 0) << "all is read at once, by a copy";
}

}  // namespace
}  // namespace mtrun::trainers
