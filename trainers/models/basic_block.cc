#include "trainers/models/basic_block.h"

namespace mtrun::models {

torch::nn::Conv2d ConvWithoutBias(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

BasicBlock::BasicBlock(int64_t in, int64_t out, int64_t stride, const std::string& shortcut_name)
    : torch::nn::Module("BasicBlock"),
      conv1_(register_module("conv1", ConvWithoutBias(in, out, 3, stride))),
      bn1_(register_module("bn1", std::make_shared<BatchNorm>(out))),
      conv2_(register_module("conv2", ConvWithoutBias(out, out, 3, 1))),
      bn2_(register_module("bn2", std::make_shared<BatchNorm>(out))) {
  if (stride == 1 && in == out) return;
  const auto shortcut = register_module(shortcut_name, std::make_shared<torch::nn::Module>("Shortcut"));
  shortcut_conv_ = shortcut->register_module("0", ConvWithoutBias(in, out, 1, stride));
  shortcut_bn_ = shortcut->register_module("1", std::make_shared<BatchNorm>(out));
}

at::Tensor BasicBlock::forward(const at::Tensor& x) {
  at::Tensor y = bn1_->forward(conv1_->forward(x)).relu_();
  y = bn2_->forward(conv2_->forward(y));
  // In place, because batch normalisation's backward pass needs its input, not its output.
  return y.add_(shortcut_bn_ ? shortcut_bn_->forward(shortcut_conv_->forward(x)) : x).relu_();
}

ResNetStage::ResNetStage(int64_t in, int64_t out, int64_t stride, const std::string& shortcut_name)
    : torch::nn::Module("ResNetStage"),
      first_(register_module("0", std::make_shared<BasicBlock>(in, out, stride, shortcut_name))),
      second_(register_module("1", std::make_shared<BasicBlock>(out, out, 1, shortcut_name))) {}

}  // namespace mtrun::models
