#include "trainers/models/resnet.h"

#include "trainers/models/init.h"

namespace mtrun::models {
namespace {

bool HasBottlenecks(int depth) { return depth >= 50; }

/// Returns the number of blocks of stage 1 to 4 (He et al. 2016, table 1).
int64_t BlocksOf(int depth, int stage) {
  constexpr int64_t kBlocks18[] = {2, 2, 2, 2}, kBlocks34And50[] = {3, 4, 6, 3};
  return (depth == 18 ? kBlocks18 : kBlocks34And50)[stage - 1];
}

int64_t WidthOf(int stage) { return int64_t{64} << (stage - 1); }

/// Returns the channels after stage 1 to 4.
int64_t OutOf(int stage, const ResNetDesign& design) {
  return ResNetBlock::Expansion(HasBottlenecks(design.depth)) * WidthOf(stage);
}

std::shared_ptr<ResNetStage> Stage(int stage, const ResNetDesign& design) {
  const int64_t width = WidthOf(stage), out = OutOf(stage, design);
  const bool bottleneck = HasBottlenecks(design.depth);
  const auto made = std::make_shared<ResNetStage>();
  made->Append(std::make_shared<ResNetBlock>(stage == 1 ? WidthOf(1) : out / 2, width, stage == 1 ? 1 : 2,
                                             bottleneck, design.shortcut));
  for (int64_t k = 1; k < BlocksOf(design.depth, stage); ++k)
    made->Append(std::make_shared<ResNetBlock>(out, width, 1, bottleneck, design.shortcut));
  return made;
}

}  // namespace

ResNet::ResNet(uint64_t seed, const ResNetDesign& design, int64_t classes, bool draws_body)
    : torch::nn::Module("ResNet"),
      max_pool_(design.max_pool),
      features_(OutOf(4, design)),
      conv1_(register_module("conv1", ConvWithoutBias(3, WidthOf(1), design.kernel, design.stride))),
      bn1_(register_module("bn1", std::make_shared<BatchNorm>(WidthOf(1)))),
      layer1_(register_module("layer1", Stage(1, design))),
      layer2_(register_module("layer2", Stage(2, design))),
      layer3_(register_module("layer3", Stage(3, design))),
      layer4_(register_module("layer4", Stage(4, design))),
      fc_(register_module("fc", torch::nn::Linear(features_, classes))) {
  DefaultInitLayer(*fc_, seed, "fc");
  if (draws_body) KaimingNormalFanOut(*this, seed);
}

at::Tensor ResNet::Features(const at::Tensor& images) {
  at::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
  if (max_pool_) x = at::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  x = layer4_->forward(layer3_->forward(layer2_->forward(layer1_->forward(x))));
  return x.mean({2, 3});
}

void ResNet::ZeroLastNorms() {
  torch::NoGradGuard no_grad;
  for (const auto& stage : {layer1_, layer2_, layer3_, layer4_}) stage->ZeroLastNorms();
}

void ResNet::FreezeBackbone() {
  for (const auto& parameter : parameters()) at::Tensor(parameter).set_requires_grad(false);
  for (const auto& parameter : fc_->parameters()) at::Tensor(parameter).set_requires_grad(true);
  frozen_ = true;
  train(is_training());
}

void ResNet::train(bool on) {
  torch::nn::Module::train(on);
  if (!frozen_) return;
  for (const auto& layer : BatchNormsOf(*this)) layer->eval();
}

}  // namespace mtrun::models
