#include "trainers/step/train_state.h"

#include <gtest/gtest.h>

#include "trainers/models/resnet.h"

namespace mtrun::trainers {
namespace {

/// A network of a layer and a batch normalisation, whose loss depends on both.
struct StateNet : torch::nn::Module {
  StateNet() {
    fc = register_module("fc", torch::nn::Linear(3, 4));
    bn = register_module("bn", std::make_shared<models::BatchNorm>(4));
    torch::NoGradGuard no_grad;
    for (const auto& p : parameters()) p.copy_(at::arange(p.numel(), at::kFloat).sin().view(p.sizes()));
  }
  at::Tensor Loss(int64_t step) {
    const at::Tensor x = (at::arange(6, at::kFloat) + step).cos().view({2, 3});
    return bn->forward(fc->forward(x).view({2, 4, 1, 1}))
        .mul(at::arange(8, at::kFloat).view({2, 4, 1, 1}))
        .sum();
  }
  torch::nn::Linear fc{nullptr};
  std::shared_ptr<models::BatchNorm> bn;
};

const TrainState::Options kEverything{
    .optimizer = {.kind = OptimizerOptions::Kind::kAdamW, .weight_decay = 0.1},
    .clip_norm = 1,
    .ema_decay = 0.9,
    .loss_scaling = GradScaler::Options{.initial_scale = 8, .growth_interval = 2}};

struct Training {
  explicit Training(const TrainState::Options& options) : state(net, options) {
    for (const auto& p : state.trained()) {
      gradients.push_back(at::zeros_like(p));
      at::Tensor(p).mutable_grad() = gradients.back();
    }
    state.BindGradients(gradients);
  }
  void Step(int64_t step) {
    at::_foreach_zero_(gradients);
    state.BeginStep();
    const at::Tensor loss = net.Loss(step);
    torch::autograd::backward({loss}, {state.RootGradient(loss, 1)});
    state.Apply(0.1, true);
  }
  NamedTensors All() const {
    NamedTensors all = state.Weights();
    for (const auto& item : state.Rest()) all.push_back(item);
    return all;
  }
  StateNet net;
  TrainState state;
  std::vector<at::Tensor> gradients;
};

/// A newcomer that gets a copy after three steps must equal an uninterrupted run after three more.
TEST(TrainState, EverythingCarriedCanBeCopied) {
  Training through(kEverything), newcomer(kEverything);
  for (int step = 0; step < 3; ++step) through.Step(step);
  newcomer.Step(17);  // it may have trained something else before
  const NamedTensors from = through.All(), to = newcomer.All();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(from[i].first, to[i].first);
    torch::NoGradGuard no_grad;
    at::Tensor(to[i].second).copy_(from[i].second);
  }
  for (int step = 3; step < 6; ++step) {
    through.Step(step);
    newcomer.Step(step);
  }
  const NamedTensors want = through.All(), got = newcomer.All();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got[i].second.equal(want[i].second)) << want[i].first;
}

TEST(TrainState, TensorsHaveDescriptiveNames) {
  Training run(kEverything);
  std::vector<std::string> names;
  for (const auto& item : run.state.Rest()) names.push_back(item.first);
  for (const char* name : {"optimizer/fc.weight.exp_avg", "optimizer/bn.bias.step", "scaler/scale",
                           "scaler/growth_tracker", "ema/fc.bias"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  EXPECT_EQ(run.state.AveragedWeights().size(), run.state.Weights().size());
  EXPECT_TRUE(Training({}).state.Rest().empty());
  EXPECT_TRUE(Training({}).state.AveragedWeights().empty());
}

TEST(TrainState, FrozenParametersAreNotTrained) {
  models::ResNet net(0, models::ResNet224(), 3);
  net.FreezeBackbone();
  TrainState state(net, {.optimizer = {.kind = OptimizerOptions::Kind::kAdam}});
  EXPECT_EQ(state.trained().size(), 2u);
  EXPECT_EQ(state.Rest().front().first, "optimizer/fc.weight.exp_avg");
}

}  // namespace
}  // namespace mtrun::trainers
