#include "trainers/models/resnet_block.h"

namespace mtrun::models {

torch::nn::Conv2d ConvWithoutBias(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

ResNetBlock::ResNetBlock(int64_t in, int64_t width, int64_t stride, bool bottleneck,
                         const std::string& shortcut_name)
    : torch::nn::Module(bottleneck ? "Bottleneck" : "BasicBlock") {
  const int64_t out = Expansion(bottleneck) * width;
  if (bottleneck) {
    Append(in, width, 1, 1);
    Append(width, width, 3, stride);
    Append(width, out, 1, 1);
  } else {
    Append(in, width, 3, stride);
    Append(width, out, 3, 1);
  }
  if (stride == 1 && in == out) return;
  // Last, because the order of names is the state dict's.
  const auto shortcut = register_module(shortcut_name, std::make_shared<torch::nn::Module>("Shortcut"));
  shortcut_ = Layer{shortcut->register_module("0", ConvWithoutBias(in, out, 1, stride)),
                    shortcut->register_module("1", std::make_shared<BatchNorm>(out))};
}

void ResNetBlock::Append(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  const std::string number = std::to_string(layers_.size() + 1);
  layers_.push_back({register_module("conv" + number, ConvWithoutBias(in, out, kernel, stride)),
                     register_module("bn" + number, std::make_shared<BatchNorm>(out))});
}

at::Tensor ResNetBlock::forward(const at::Tensor& x) {
  at::Tensor y = x;
  for (Layer& layer : layers_) {
    y = layer.forward(y);
    if (&layer != &layers_.back()) y.relu_();
  }
  // In place, because batch normalisation's backward pass needs its input, not its output.
  return y.add_(shortcut_ ? shortcut_->forward(x) : x).relu_();
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
