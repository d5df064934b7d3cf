#include "trainers/models/init.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/splitmix.h"
#include "trainers/models/cnn_a.h"
#include "trainers/models/resnet.h"
#include "trainers/models/unet.h"
#include "trainers/models/vit.h"

namespace mtrun::models {
namespace {

at::Tensor Parameter(const torch::nn::Module& module, const std::string& name) {
  return module.named_parameters()[name];
}

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

TEST(normal_init, MatchesTheNamedStream) {
  at::Tensor t = at::zeros({2, 3});
  NormalInit(t, 7, "fc.weight", 0.5);
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_FLOAT_EQ(t.flatten()[i].item<float>(),
                    static_cast<float>(0.5 * NamedStream(7, "init/fc.weight").Normal(i)));
  }
}

TEST(normal_init, ThreadsDoNotChangeIt) {
  at::Tensor one = at::zeros({300000}), two = at::zeros({300000});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  NormalInit(one, 1, "x", 1);
  at::set_num_threads(2);
  NormalInit(two, 1, "x", 1);
  at::set_num_threads(before);
  EXPECT_TRUE(one.equal(two));
  EXPECT_NEAR(one.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(one.std().item<double>(), 1, 0.01);
}

TEST(normal_init, ResNetsUseKaimingFanOut) {
  const auto net = std::make_shared<ResNet>(3, kResNet32);
  EXPECT_NEAR(Parameter(*net, "layer3.0.conv1.weight").std().item<double>(), std::sqrt(2.0 / (256 * 9)),
              2e-4);
  EXPECT_NEAR(Parameter(*net, "layer3.0.shortcut.0.weight").std().item<double>(), std::sqrt(2.0 / 256), 2e-3);
  EXPECT_TRUE(Parameter(*net, "bn1.weight").equal(at::ones({64})));
  EXPECT_LE(Parameter(*net, "fc.weight").abs().max().item<double>(), 1 / std::sqrt(512.0));
  const auto large = std::make_shared<ResNet>(3, ResNet224(), 1000);
  EXPECT_NEAR(Parameter(*large, "conv1.weight").std().item<double>(), std::sqrt(2.0 / (64 * 49)), 1e-3);
  EXPECT_EQ(Parameter(*large, "fc.bias").numel(), 1000);
}

TEST(normal_init, BodyThatIsLoadedDoesNotChangeTheLastLayer) {
  const ResNet drawn(3, ResNet224(), 7), loaded(3, ResNet224(), 7, /*draws_body=*/false);
  for (const char* name : {"fc.weight", "fc.bias"})
    EXPECT_TRUE(Parameter(drawn, name).equal(Parameter(loaded, name))) << name;
  EXPECT_FALSE(Parameter(drawn, "conv1.weight").equal(Parameter(loaded, "conv1.weight")));
}

TEST(normal_init, TransformersUseTruncatedNormal) {
  const auto net = std::make_shared<VisionTransformer>(3);
  const at::Tensor weight = Parameter(*net, "encoder.2.fc1.weight");
  EXPECT_NEAR(weight.std().item<double>(), 0.02, 2e-4);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 2e-4);
  EXPECT_TRUE(Parameter(*net, "encoder.2.fc1.bias").equal(at::zeros({768})));
  EXPECT_TRUE(Parameter(*net, "embedding.pos_embedding").equal(at::zeros({1, 65, 192})));
}

TEST(normal_init, SeedsDifferAndRepeat) {
  const auto weight = [](uint64_t seed) {
    return Parameter(*std::make_shared<VisionTransformer>(seed), "classifier.weight");
  };
  EXPECT_TRUE(weight(1).equal(weight(1)));
  EXPECT_FALSE(weight(1).equal(weight(2)));
}

TEST(normal_init, UntrainedUnetReturnsZero) {
  UnetOptions options;
  options.channels = 8;
  options.image_size = 16;
  options.mults = {1, 2};
  options.attention = {8};
  options.classes = 3;
  const auto net = std::make_shared<Unet>(1, options);
  const at::Tensor x = at::ones({2, 3, 16, 16});
  const at::Tensor y = net->forward(x, at::tensor({1, 999}, at::kLong), at::tensor({0, 3}, at::kLong));
  EXPECT_TRUE(y.equal(at::zeros_like(x)));
}

TEST(normal_init, ClassesReachTheUnetsOutput) {
  UnetOptions options;
  options.channels = 8;
  options.image_size = 16;
  options.mults = {1, 2};
  options.classes = 3;
  const auto net = std::make_shared<Unet>(1, options);
  {
    torch::NoGradGuard no_grad;
    for (auto& p : net->parameters()) p.add_(0.01);
  }
  const at::Tensor x = at::ones({2, 3, 16, 16}), t = at::tensor({5, 5}, at::kLong);
  const at::Tensor y = net->forward(x, t, at::tensor({0, 1}, at::kLong));
  EXPECT_FALSE(y[0].equal(y[1]));
  EXPECT_EQ(Parameter(*net, "class_embedding.weight").sizes(), at::IntArrayRef({4, 32}));
}

TEST(ZeroInit, BlockStartsAsItsShortcut) {
  ResNet net(3, kResNet32);
  net.ZeroLastNorms();
  int blocks = 0;
  for (const auto& p : net.named_parameters()) {
    const bool last = p.key().ends_with("bn2.weight");
    blocks += last ? 1 : 0;
    if (p.value().dim() != 1 || !p.key().ends_with(".weight")) continue;
    EXPECT_EQ(p.value().detach().abs().max().item<float>(), last ? 0 : 1) << p.key();
  }
  EXPECT_EQ(blocks, 8);
}

}  // namespace
}  // namespace mtrun::models
