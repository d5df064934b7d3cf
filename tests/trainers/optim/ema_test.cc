#include "trainers/optim/ema.h"

#include <gtest/gtest.h>

#include <torch/nn/modules/linear.h>

namespace mtrun::trainers {
namespace {

TEST(ema, FollowsTheParameters) {
  at::Tensor p = at::ones({2}).requires_grad_();
  Ema ema({p}, 0.9);
  {
    torch::NoGradGuard no_grad;
    p.fill_(2);
  }
  ema.Update();
  EXPECT_TRUE(at::allclose(ema.average()[0], at::full({2}, 1.1)));
  ema.Update();
  EXPECT_TRUE(at::allclose(ema.average()[0], at::full({2}, 1.19)));
  EXPECT_TRUE(p.detach().equal(at::full({2}, 2.0f)));
}

TEST(ema, RestartTakesTheParametersAsTheAverage) {
  at::Tensor p = at::ones({2}).requires_grad_();
  Ema ema({p}, 0.9);
  torch::NoGradGuard no_grad;
  p.fill_(2);
  ema.Update();
  p.fill_(3);
  ema.Restart();
  EXPECT_TRUE(ema.average()[0].equal(at::full({2}, 3.0f)));
  p.fill_(5);
  EXPECT_TRUE(ema.average()[0].equal(at::full({2}, 3.0f))) << "a copy";
}

TEST(ema, ScopeSwapsTheAverageInAndOut) {
  torch::nn::Linear net(1, 1);
  const at::Tensor alias = net->weight.detach();  // an optimizer holds such an alias
  {
    torch::NoGradGuard no_grad;
    net->weight.fill_(1);
    net->bias.fill_(0);
  }
  Ema ema(net->parameters(), 0.5);
  {
    torch::NoGradGuard no_grad;
    net->weight.fill_(3);
  }
  ema.Update();
  const at::Tensor x = at::ones({1, 1});
  {
    const Ema::Scope scope(ema);
    EXPECT_EQ(net->forward(x).item<float>(), 2);
    EXPECT_EQ(ema.average()[0].item<float>(), 2);
  }
  EXPECT_EQ(net->forward(x).item<float>(), 3);
  {
    const Ema::Scope again(ema);
    EXPECT_EQ(net->forward(x).item<float>(), 2);
  }
  EXPECT_TRUE(net->weight.is_alias_of(alias));
  at::Tensor(alias).fill_(5);
  EXPECT_EQ(net->forward(x).item<float>(), 5);
  ema.Update();
  EXPECT_EQ(ema.average()[0].item<float>(), 3.5);
}

}  // namespace
}  // namespace mtrun::trainers
