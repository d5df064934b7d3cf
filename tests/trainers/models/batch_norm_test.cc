#include "trainers/models/batch_norm.h"

#include <gtest/gtest.h>

#include <torch/nn/modules/batchnorm.h>

#include "trainers/models/resnet.h"

namespace mtrun::models {
namespace {

/// A module tree with two normalisation layers of different widths.
struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    first = register_module("first", std::make_shared<BatchNorm>(3));
    second = register_module("second", std::make_shared<BatchNorm>(5));
  }
  void Forward(const at::Tensor& x, const at::Tensor& y) {
    first->forward(x);
    second->forward(y);
  }
  std::shared_ptr<BatchNorm> first, second;
};

at::Tensor Random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kFloat)) * 2 + 1;
}

at::Tensor Buffer(const torch::nn::Module& module, const std::string& name) {
  return module.named_buffers()[name];
}

/// Returns PyTorch's own layer as the reference.
torch::nn::BatchNorm2d ReferenceNorm(int64_t channels) { return torch::nn::BatchNorm2d(channels); }

TEST(batch_norm, OutputAndGradientsMatchPyTorch) {
  const at::Tensor x = Random({4, 3, 5, 5}, 1), weight = Random({4, 3, 5, 5}, 2);
  at::Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
  auto ours = std::make_shared<BatchNorm>(3);
  auto theirs = ReferenceNorm(3);
  (ours->forward(a) * weight).sum().backward();
  (theirs->forward(b) * weight).sum().backward();
  EXPECT_TRUE(at::allclose(a.grad(), b.grad(), 1e-5, 1e-6));
  const auto p = ours->named_parameters();
  EXPECT_TRUE(at::allclose(p["weight"].grad(), theirs->weight.grad()));
  EXPECT_TRUE(at::allclose(p["bias"].grad(), theirs->bias.grad()));
}

TEST(batch_norm, StatisticsMoveOnlyOnceAStep) {
  TwoLayers net;
  auto theirs = ReferenceNorm(3);
  RunningStatistics statistics(net);
  const at::Tensor x = Random({4, 3, 5, 5}, 1);
  statistics.BeginStep();
  net.Forward(x, Random({4, 5, 2, 2}, 2));
  EXPECT_TRUE(Buffer(net, "first.running_mean").equal(at::zeros({3})));
  statistics.Move();
  theirs->forward(x);
  EXPECT_TRUE(at::allclose(Buffer(net, "first.running_mean"), theirs->running_mean));
  EXPECT_TRUE(at::allclose(Buffer(net, "first.running_var"), theirs->running_var));
  EXPECT_EQ(Buffer(net, "first.num_batches_tracked").item<int64_t>(), 1);
  EXPECT_FALSE(Buffer(net, "second.running_mean").equal(at::zeros({5})));
}

/// Checks the rule of tests/testdata/parity: the new statistics are the mean, weighted by sample counts, of
/// the statistics that each micro-batch alone would give.
TEST(batch_norm, UnequalMicroBatchesAreWeightedByTheirCount) {
  TwoLayers net;
  RunningStatistics statistics(net);
  at::Tensor mean = at::zeros({3}), variance = at::zeros({3});
  statistics.BeginStep();
  for (const int64_t n : {6, 2, 3}) {
    const at::Tensor x = Random({n, 3, 4, 4}, n);
    auto alone = ReferenceNorm(3);
    alone->forward(x);
    mean += alone->running_mean * (n / 11.0);
    variance += alone->running_var * (n / 11.0);
    net.Forward(x, Random({n, 5, 2, 2}, n));
  }
  statistics.Move();
  EXPECT_TRUE(at::allclose(Buffer(net, "first.running_mean"), mean, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(Buffer(net, "first.running_var"), variance, 1e-5, 1e-6));
  EXPECT_EQ(Buffer(net, "first.num_batches_tracked").item<int64_t>(), 1);
}

/// As on two workers: each computes its own micro-batches, then the sums are added.
TEST(batch_norm, SumsOfWorkersAddUp) {
  TwoLayers one, left, right;
  RunningStatistics all(one), a(left), b(right);
  for (auto* s : {&all, &a, &b}) s->BeginStep();
  const at::Tensor x = Random({6, 3, 4, 4}, 1), y = Random({6, 5, 4, 4}, 2);
  one.Forward(x.narrow(0, 0, 2), y.narrow(0, 0, 2));
  one.Forward(x.narrow(0, 2, 4), y.narrow(0, 2, 4));
  left.Forward(x.narrow(0, 0, 2), y.narrow(0, 0, 2));
  right.Forward(x.narrow(0, 2, 4), y.narrow(0, 2, 4));
  const at::Tensor sum = a.sums() + b.sums();
  at::Tensor(a.sums()).copy_(sum);
  at::Tensor(b.sums()).copy_(sum);
  for (auto* s : {&all, &a, &b}) s->Move();
  for (const char* name :
       {"first.running_mean", "first.running_var", "second.running_mean", "second.running_var"}) {
    EXPECT_TRUE(at::allclose(Buffer(left, name), Buffer(one, name), 1e-6, 1e-7)) << name;
    EXPECT_TRUE(Buffer(left, name).equal(Buffer(right, name))) << name;
  }
}

TEST(batch_norm, StepThatIsNotMovedLeavesTheBuffersUnchanged) {
  TwoLayers net;
  RunningStatistics statistics(net);
  statistics.BeginStep();
  net.Forward(at::full({2, 3, 2, 2}, INFINITY), Random({2, 5, 2, 2}, 1));
  EXPECT_TRUE(Buffer(net, "first.running_mean").equal(at::zeros({3})));
  EXPECT_TRUE(Buffer(net, "second.running_var").equal(at::ones({5})));
  EXPECT_EQ(Buffer(net, "second.num_batches_tracked").item<int64_t>(), 0);
  statistics.BeginStep();
  net.Forward(Random({2, 3, 2, 2}, 2), Random({2, 5, 2, 2}, 1));
  statistics.Move();
  EXPECT_TRUE(Buffer(net, "first.running_mean").isfinite().all().item<bool>());
  EXPECT_EQ(Buffer(net, "second.num_batches_tracked").item<int64_t>(), 1);
}

/// The last micro-batch of an epoch, at one pixel, has the variance 0 / 0.
TEST(batch_norm, SingleValuePerChannelIsExcludedFromTheStatistics) {
  TwoLayers with, without;
  RunningStatistics one(with), other(without);
  for (auto* s : {&one, &other}) s->BeginStep();
  const at::Tensor x = Random({4, 3, 2, 2}, 1), y = Random({4, 5, 2, 2}, 2);
  with.Forward(x, y);
  without.Forward(x, y);
  const at::Tensor last = Random({1, 3, 1, 1}, 3).requires_grad_();
  const at::Tensor output = with.first->forward(last);
  output.sum().backward();
  EXPECT_LT(output.abs().max().item<double>(), 1e-2)
      << "the bias, but for x - mean in float32 over sqrt(eps)";
  EXPECT_TRUE(last.grad().isfinite().all().item<bool>());
  for (auto* s : {&one, &other}) s->Move();
  EXPECT_TRUE(Buffer(with, "first.running_var").equal(Buffer(without, "first.running_var")));
  EXPECT_TRUE(Buffer(with, "first.running_mean").equal(Buffer(without, "first.running_mean")));
}

TEST(batch_norm, EvaluationUsesRunningStatisticsAndCollectsNothing) {
  TwoLayers net;
  RunningStatistics statistics(net);
  statistics.BeginStep();
  net.eval();
  const at::Tensor x = Random({2, 3, 2, 2}, 1);
  EXPECT_TRUE(at::allclose(net.first->forward(x), x / std::sqrt(1 + BatchNorm::kEps)));
  EXPECT_TRUE(statistics.sums().equal(at::zeros_like(statistics.sums())));
  statistics.Move();
  EXPECT_TRUE(Buffer(net, "first.running_mean").equal(at::zeros({3})));
}

TEST(batch_norm, FloatingTypesFollowTheModel) {
  TwoLayers net;
  net.to(at::kDouble);
  RunningStatistics statistics(net);
  statistics.BeginStep();
  net.Forward(Random({2, 3, 2, 2}, 1).to(at::kDouble), Random({2, 5, 2, 2}, 1).to(at::kDouble));
  statistics.Move();
  EXPECT_EQ(Buffer(net, "first.running_mean").scalar_type(), at::kDouble);
}

TEST(batch_norm, ModelWithoutNormalisationIsAccepted) {
  torch::nn::Linear net(2, 2);
  RunningStatistics statistics(*net);
  statistics.BeginStep();
  statistics.Move();
  EXPECT_TRUE(statistics.empty());
  EXPECT_EQ(statistics.sums().numel(), 0);
}

TEST(batch_norm, FrozenBackboneDoesNotChangeInTraining) {
  const auto net = std::make_shared<ResNet>(0, ResNet224(), 3);
  net->FreezeBackbone();
  net->eval();
  net->train();
  RunningStatistics statistics(*net);
  statistics.BeginStep();
  const at::Tensor logits = net->forward(Random({2, 3, 64, 64}, 1));
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 3}));
  logits.sum().backward();
  statistics.Move();
  EXPECT_TRUE(Buffer(*net, "bn1.running_mean").equal(at::zeros({64})));
  int64_t with_gradient = 0;
  for (const auto& p : net->named_parameters()) with_gradient += p.value().grad().defined();
  EXPECT_EQ(with_gradient, 2);
  EXPECT_TRUE(net->named_parameters()["fc.weight"].grad().defined());
}

}  // namespace
}  // namespace mtrun::models
