#include "trainers/tasks/classifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::trainers {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A network whose logits are the first three pixels.
class Pixels : public torch::nn::Module {
 public:
  Pixels() { weight_ = register_parameter("weight", at::eye(3, at::kDouble)); }
  at::Tensor forward(const at::Tensor& images) const {
    return images.flatten(1).slice(1, 0, 3).matmul(weight_);
  }

 private:
  at::Tensor weight_;
};

at::Tensor PixelImages(int64_t n) { return at::arange(n * 3, at::kDouble).sin().reshape({n, 3, 1, 1}); }

double TrainingLoss(Task& task, const at::Tensor& images, const at::Tensor& labels) {
  return task.Train({.images = images, .labels = labels}, {}).loss.item<double>();
}

TEST(BalancedWeights, ClassesCountAlike) {
  EXPECT_THAT(BalancedWeights({6, 2}), ElementsAre(DoubleEq(8.0 / 12), DoubleEq(2)));
  EXPECT_THAT(BalancedWeights({5, 5, 5}), ElementsAre(DoubleEq(1), DoubleEq(1), DoubleEq(1)));
  EXPECT_THAT(BalancedWeights({}), IsEmpty());
}

TEST(BalancedWeights, ClassWithoutImagesHasNone) {
  EXPECT_THAT(BalancedWeights({3, 0, 1}), ElementsAre(DoubleEq(4.0 / 6), 0, DoubleEq(2)));
}

TEST(ClassifierTask, LossIsTheWeightedSumOverTheImages) {
  const at::Tensor images = PixelImages(4), labels = at::tensor({0, 2, 1, 2}, at::kLong);
  const std::vector<double> weights = {0.5, 3, 1.25};
  for (const double smoothing : {0.0, 0.2}) {
    const auto task =
        Classify(AsModel(std::make_shared<Pixels>()), 3, {.smoothing = smoothing, .class_weights = weights});
    EXPECT_TRUE(task->weighs_classes());
    double want = 0;
    for (int64_t i = 0; i < 4; ++i) {
      const at::Tensor log_p = images[i].flatten().log_softmax(0);
      for (int64_t c = 0; c < 3; ++c) {
        const double share = (c == labels[i].item<int64_t>() ? 1 - smoothing : 0) + smoothing / 3;
        want -= share * weights[static_cast<size_t>(c)] * log_p[c].item<double>() / 4;
      }
    }
    EXPECT_NEAR(TrainingLoss(*task, images, labels), want, 1e-12) << smoothing;
  }
}

/// PyTorch's mean divides by the weights of the batch, so it would depend on the images that share one.
TEST(ClassifierTask, WeightedLossDoesNotDependOnTheMicroBatches) {
  const at::Tensor images = PixelImages(6), labels = at::tensor({0, 2, 1, 2, 2, 0}, at::kLong);
  const auto task =
      Classify(AsModel(std::make_shared<Pixels>()), 3, {.class_weights = BalancedWeights({2, 1, 3})});
  double parts = 0;
  for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 1}, {1, 3}, {4, 2}})
    parts += TrainingLoss(*task, images.narrow(0, first, n), labels.narrow(0, first, n)) *
             static_cast<double>(n) / 6;
  EXPECT_NEAR(TrainingLoss(*task, images, labels), parts, 1e-12);
}

TEST(ClassifierTask, EvaluationDoesNotWeigh) {
  const at::Tensor images = PixelImages(2), labels = at::tensor({0, 2}, at::kLong);
  const auto plain = Classify(AsModel(std::make_shared<Pixels>()), 3);
  const auto weighs = Classify(AsModel(std::make_shared<Pixels>()), 3, {.class_weights = {9, 1, 1}});
  EXPECT_FALSE(plain->weighs_classes());
  const auto loss = [&](Task& task) {
    Task::Sums sums{.loss = at::zeros({1}, at::kDouble),
                    .confusion = at::zeros({9}, at::kLong),
                    .top5 = at::empty({0}, at::kLong)};
    task.Evaluate({.images = images, .labels = labels}, 0, sums);
    return sums.loss.item<double>();
  };
  EXPECT_EQ(loss(*weighs), loss(*plain));
  EXPECT_NE(TrainingLoss(*weighs, images, labels), TrainingLoss(*plain, images, labels));
}

}  // namespace
}  // namespace mtrun::trainers
