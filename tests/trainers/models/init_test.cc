#include "trainers/models/init.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trainers/models/cnn_a.h"

namespace mtrun::models {
namespace {

TEST(DefaultInit, IsAFunctionOfTheSeedAndTheName) {
  const CnnA first(1), same(1), other(2);
  for (const auto& p : first.named_parameters()) {
    EXPECT_TRUE(p.value().equal(same.named_parameters()[p.key()])) << p.key();
    EXPECT_FALSE(p.value().equal(other.named_parameters()[p.key()])) << p.key();
  }
  EXPECT_NE(first.named_parameters()["conv1.bias"][0].item<float>(),
            first.named_parameters()["conv2.bias"][0].item<float>());
}

TEST(DefaultInit, IsUniformWithinOneOverTheRootOfTheFanIn) {
  CnnA net(3);
  const at::Tensor weight = net.named_parameters()["fc1.weight"].detach().to(at::kDouble);
  const double bound = 1 / std::sqrt(288.0);
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_GT(weight.abs().max().item<double>(), 0.99 * bound);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 0.03 * bound);
  EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), 0.02 * bound);
  const at::Tensor bias = net.named_parameters()["conv2.bias"].detach();
  EXPECT_LE(bias.abs().max().item<double>(), 1 / std::sqrt(36.0));
}

}  // namespace
}  // namespace mtrun::models
