#include "trainers/engine/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace mtrun::engine {
namespace {

using Kind = OptimizerOptions::Kind;

TEST(Optimizer, SgdFollowsTheGradientOfTheMoment) {
  const at::Tensor parameter = at::ones({3}), gradient = at::full({3}, 2.0);
  const auto optimizer = MakeOptimizer({}, {parameter}, {gradient});
  optimizer->Step(0.25);
  EXPECT_TRUE(parameter.allclose(at::full({3}, 0.5)));
  gradient.fill_(-4);
  optimizer->Step(0.5);
  EXPECT_TRUE(parameter.allclose(at::full({3}, 2.5)));
  EXPECT_TRUE(gradient.equal(at::full({3}, -4.0))) << "gradients stay as they are";
}

TEST(Optimizer, UpdatesLeavesThatRequireGradients) {
  const at::Tensor parameter = at::ones({2}).requires_grad_();
  MakeOptimizer({}, {parameter}, {at::ones({2})})->Step(0.5);
  EXPECT_TRUE(parameter.detach().equal(at::full({2}, 0.5)));
}

TEST(Optimizer, StateIsNamedByParameter) {
  const auto names = [](const OptimizerOptions& options) {
    std::vector<std::string> out;
    const auto optimizer =
        MakeOptimizer(options, {at::ones({1}), at::ones({2})}, {at::ones({1}), at::ones({2})});
    for (const auto& item : optimizer->State()) out.push_back(item.first);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({.kind = Kind::kSgd}), Names{});
  EXPECT_EQ(names({.kind = Kind::kSgd, .momentum = 0.9}), (Names{"momentum/0", "momentum/1"}));
  EXPECT_EQ(names({.kind = Kind::kAdamW}),
            (Names{"exp_avg/0", "exp_avg/1", "exp_avg_sq/0", "exp_avg_sq/1", "step/0", "step/1"}));
}

}  // namespace
}  // namespace mtrun::engine
