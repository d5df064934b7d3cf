#include "trainers/models/resnet_block.h"

#include <utility>

namespace mtrun::models {

torch::nn::Conv2d ConvWithoutBias(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

void ResNetBlock::MakeShortcut(int64_t in, int64_t out, int64_t stride, const std::string& name) {
  if (stride == 1 && in == out) return;
  const auto shortcut = register_module(name, std::make_shared<torch::nn::Module>("Shortcut"));
  shortcut_conv_ = shortcut->register_module("0", ConvWithoutBias(in, out, 1, stride));
  shortcut_bn_ = shortcut->register_module("1", std::make_shared<BatchNorm>(out));
}

at::Tensor ResNetBlock::AddShortcut(at::Tensor y, const at::Tensor& x) {
  // In place, because batch normalisation's backward pass needs its input, not its output.
  return y.add_(shortcut_bn_ ? shortcut_bn_->forward(shortcut_conv_->forward(x)) : x).relu_();
}

BasicBlock::BasicBlock(int64_t in, int64_t width, int64_t stride, const std::string& shortcut_name)
    : ResNetBlock("BasicBlock"),
      conv1_(register_module("conv1", ConvWithoutBias(in, width, 3, stride))),
      bn1_(register_module("bn1", std::make_shared<BatchNorm>(width))),
      conv2_(register_module("conv2", ConvWithoutBias(width, width, 3, 1))),
      bn2_(register_module("bn2", std::make_shared<BatchNorm>(width))) {
  MakeShortcut(in, width, stride, shortcut_name);
}

at::Tensor BasicBlock::forward(const at::Tensor& x) {
  const at::Tensor y = bn1_->forward(conv1_->forward(x)).relu_();
  return AddShortcut(bn2_->forward(conv2_->forward(y)), x);
}

Bottleneck::Bottleneck(int64_t in, int64_t width, int64_t stride, const std::string& shortcut_name)
    : ResNetBlock("Bottleneck"),
      conv1_(register_module("conv1", ConvWithoutBias(in, width, 1, 1))),
      bn1_(register_module("bn1", std::make_shared<BatchNorm>(width))),
      conv2_(register_module("conv2", ConvWithoutBias(width, width, 3, stride))),
      bn2_(register_module("bn2", std::make_shared<BatchNorm>(width))),
      conv3_(register_module("conv3", ConvWithoutBias(width, kExpansion * width, 1, 1))),
      bn3_(register_module("bn3", std::make_shared<BatchNorm>(kExpansion * width))) {
  MakeShortcut(in, kExpansion * width, stride, shortcut_name);
}

at::Tensor Bottleneck::forward(const at::Tensor& x) {
  at::Tensor y = bn1_->forward(conv1_->forward(x)).relu_();
  y = bn2_->forward(conv2_->forward(y)).relu_();
  return AddShortcut(bn3_->forward(conv3_->forward(y)), x);
}

void ResNetStage::Append(const std::shared_ptr<ResNetBlock>& block) {
  blocks_.push_back(register_module(std::to_string(blocks_.size()), block));
}

at::Tensor ResNetStage::forward(at::Tensor x) {
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

void ResNetStage::ZeroLastNorms() {
  for (const auto& block : blocks_) block->ZeroLastNorm();
}

}  // namespace mtrun::models
