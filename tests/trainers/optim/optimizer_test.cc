#include "trainers/optim/optimizer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace mtrun::trainers {
namespace {

using OptimizerKind = OptimizerOptions::Kind;

TEST(Optimizer, SgdUsesTheCurrentGradient) {
  const at::Tensor parameter = at::ones({3}), gradient = at::full({3}, 2.0);
  const auto optimizer = MakeOptimizer({}, {parameter});
  optimizer->BindGradients({gradient});
  optimizer->Step(0.25);
  EXPECT_TRUE(parameter.allclose(at::full({3}, 0.5)));
  gradient.fill_(-4);
  optimizer->Step(0.5);
  EXPECT_TRUE(parameter.allclose(at::full({3}, 2.5)));
  EXPECT_TRUE(gradient.equal(at::full({3}, -4.0))) << "gradients stay as they are";
}

TEST(Optimizer, UpdatesLeavesThatRequireGradients) {
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  const auto optimizer = MakeOptimizer({}, {parameter});
  optimizer->BindGradients({at::ones({2})});
  optimizer->Step(0.5);
  EXPECT_TRUE(parameter.detach().equal(at::full({2}, 0.5)));
}

TEST(Optimizer, StateIsNamedByParameter) {
  const auto names = [](const OptimizerOptions& options, std::vector<std::string> parameters = {}) {
    std::vector<std::string> out;
    const auto optimizer = MakeOptimizer(options, {at::ones({1}), at::ones({2})}, std::move(parameters));
    for (const auto& item : optimizer->State()) out.push_back(item.first);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({.kind = OptimizerKind::kSgd}), Names{});
  EXPECT_EQ(names({.kind = OptimizerKind::kSgd, .momentum = 0.9}),
            (Names{"0.momentum_buffer", "1.momentum_buffer"}));
  EXPECT_EQ(names({.kind = OptimizerKind::kAdamW}, {"fc.weight", "fc.bias"}),
            (Names{"fc.weight.exp_avg", "fc.weight.exp_avg_sq", "fc.weight.step", "fc.bias.exp_avg",
                   "fc.bias.exp_avg_sq", "fc.bias.step"}));
}

/// Copies the state into a new optimizer after some steps; both must then behave the same.
TEST(Optimizer, CopiedStateContinuesIdentically) {
  for (const auto& options :
       {OptimizerOptions{.kind = OptimizerKind::kSgd, .momentum = 0.9, .nesterov = true},
        OptimizerOptions{.kind = OptimizerKind::kAdam}, OptimizerOptions{.kind = OptimizerKind::kAdamW}}) {
    const at::Tensor parameter = at::ones({3}), gradient = at::tensor({1.0f, -2.0f, 0.5f});
    const auto first = MakeOptimizer(options, {parameter});
    first->BindGradients({gradient});
    for (int step = 0; step < 3; ++step) first->Step(0.1);
    const at::Tensor copy = parameter.clone();
    const auto second = MakeOptimizer(options, {copy});
    second->BindGradients({gradient});
    const auto from = first->State(), to = second->State();
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < to.size(); ++i) at::Tensor(to[i].second).copy_(from[i].second);
    first->Step(0.2);
    second->Step(0.2);
    EXPECT_TRUE(parameter.equal(copy));
  }
}

TEST(Optimizer, VectorsCanBeExcludedFromWeightDecay) {
  const auto after = [](bool decay_vectors, at::IntArrayRef shape) {
    const at::Tensor vector = at::ones({2}), matrix = at::ones({2, 2});
    const auto optimizer = MakeOptimizer(
        {.kind = OptimizerKind::kSgd, .weight_decay = 0.5, .decay_vectors = decay_vectors}, {vector, matrix});
    optimizer->BindGradients({at::zeros({2}), at::zeros({2, 2})});
    optimizer->Step(1);
    return (shape.size() == 1 ? vector : matrix).max().item<float>();
  };
  EXPECT_EQ(after(true, {2}), 0.5f);
  EXPECT_EQ(after(false, {2}), 1.0f);
  EXPECT_EQ(after(false, {2, 2}), 0.5f);
}

}  // namespace
}  // namespace mtrun::trainers
