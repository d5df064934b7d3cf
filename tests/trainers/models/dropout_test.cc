#include "trainers/models/dropout.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "trainers/models/vit.h"
#include "trainers/random/draw.h"

namespace mtrun::models {
namespace {

at::Tensor Stream(uint64_t seed) {
  return trainers::OnDevice(trainers::RandomStream(seed, 0, 0, "dropout"), at::kCPU);
}

DropoutSource Source(uint64_t seed) {
  DropoutSource source;
  source.SetStream(Stream(seed));
  return source;
}

TEST(dropout, DropsTheRequestedShareAndKeepsTheMean) {
  const at::Tensor y = Source(1).Elements(at::ones({100000}), 0.1);
  EXPECT_NEAR((y == 0).to(at::kFloat).mean().item<double>(), 0.1, 0.01);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.9, 1e-6);
}

TEST(dropout, RowsAreDroppedEntirely) {
  const at::Tensor y = Source(1).Rows(at::ones({1000, 4, 5}), 0.5);
  const at::Tensor sums = y.sum({1, 2});
  EXPECT_TRUE(((sums == 0).logical_or((sums - 40).abs() < 1e-4)).all().item<bool>());
  EXPECT_NEAR((sums == 0).to(at::kFloat).mean().item<double>(), 0.5, 0.06);
}

TEST(dropout, GradientIsZeroOnlyAtDroppedElements) {
  at::Tensor x = at::ones({1000}).requires_grad_();
  const at::Tensor y = Source(2).Elements(x, 0.3);
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(y.detach()));
}

/// The stream belongs to the micro-batch: it gives the same result, whatever was computed before.
TEST(dropout, VitIsAFunctionOfItsStream) {
  const auto net = std::make_shared<VisionTransformer>(1);
  const at::Tensor x = at::rand({3, 3, 32, 32});
  const auto run = [&](uint64_t seed) {
    net->SetStream(Stream(seed));
    return net->forward(x);
  };
  const at::Tensor first = run(1), other = run(2);
  EXPECT_TRUE(run(1).equal(first));
  EXPECT_FALSE(other.equal(first));
  net->eval();
  EXPECT_TRUE(run(1).equal(run(2)));
}

TEST(dropout, EachLayerDrawsItsOwnNumbers) {
  DropoutSource source = Source(3);
  const at::Tensor x = at::ones({1001});
  const at::Tensor first = source.Elements(x, 0.5), second = source.Elements(x, 0.5);
  EXPECT_FALSE(first.equal(second));
  source.SetStream(Stream(3));
  EXPECT_TRUE(source.Elements(x, 0.5).equal(first));
  EXPECT_EQ(source.Elements(x.to(at::kDouble), 0.5).scalar_type(), at::kDouble);
}

TEST(dropout, ThreadsDoNotChangeIt) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = Source(3).Elements(at::ones({200000}), 0.1);
  at::set_num_threads(2);
  const at::Tensor two = Source(3).Elements(at::ones({200000}), 0.1);
  at::set_num_threads(before);
  EXPECT_TRUE(one.equal(two));
}

}  // namespace
}  // namespace mtrun::models
