#include "trainers/models/resnet18.h"

#include "trainers/models/init.h"
#include "trainers/models/normal_init.h"

namespace mtrun::models {
namespace {

std::shared_ptr<ResNetStage> Stage(int64_t in, int64_t out, int64_t stride, const ResNetStem& stem) {
  return std::make_shared<ResNetStage>(in, out, stride, stem.shortcut);
}

}  // namespace

ResNet18::ResNet18(uint64_t seed, const ResNetStem& stem, int64_t classes, bool draws_body)
    : torch::nn::Module("ResNet18"),
      max_pool_(stem.max_pool),
      conv1_(register_module("conv1", ConvWithoutBias(3, 64, stem.kernel, stem.stride))),
      bn1_(register_module("bn1", std::make_shared<BatchNorm>(64))),
      layer1_(register_module("layer1", Stage(64, 64, 1, stem))),
      layer2_(register_module("layer2", Stage(64, 128, 2, stem))),
      layer3_(register_module("layer3", Stage(128, 256, 2, stem))),
      layer4_(register_module("layer4", Stage(256, 512, 2, stem))),
      fc_(register_module("fc", torch::nn::Linear(kFeatures, classes))) {
  DefaultInitLayer(*fc_, seed, "fc");
  if (draws_body) KaimingNormalFanOut(*this, seed);
}

at::Tensor ResNet18::Features(const at::Tensor& images) {
  at::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
  if (max_pool_) x = at::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  x = layer4_->forward(layer3_->forward(layer2_->forward(layer1_->forward(x))));
  return x.mean({2, 3});
}

void ResNet18::ZeroLastNorms() {
  torch::NoGradGuard no_grad;
  for (const auto& stage : {layer1_, layer2_, layer3_, layer4_}) stage->ZeroLastNorms();
}

void ResNet18::FreezeBackbone() {
  for (const auto& parameter : parameters()) at::Tensor(parameter).set_requires_grad(false);
  for (const auto& parameter : fc_->parameters()) at::Tensor(parameter).set_requires_grad(true);
  frozen_ = true;
  train(is_training());
}

void ResNet18::train(bool on) {
  torch::nn::Module::train(on);
  if (!frozen_) return;
  for (const auto& layer : BatchNormsOf(*this)) layer->eval();
}

}  // namespace mtrun::models
