// Residual blocks of ResNets (He et al. 2016): two convolutions of 3x3, or a bottleneck.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "trainers/models/batch_norm.h"

namespace mtrun::models {

/// Returns a 3x3 (padding 1), 7x7 (padding 3) or 1x1 convolution without bias, as in ResNets.
torch::nn::Conv2d ConvWithoutBias(int64_t in, int64_t out, int64_t kernel, int64_t stride);

/// relu(residual(x) + shortcut(x)). [n, in, H, W] -> [n, out, H/stride, W/stride].
class ResNetBlock : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  /// Makes the block begin as its shortcut. Must be called without gradients.
  virtual void ZeroLastNorm() = 0;

 protected:
  using torch::nn::Module::Module;
  /// `name`: "shortcut" or torchvision's "downsample". Its entries .0 (1x1 convolution) and .1 (batch norm)
  /// exist only if the shape changes. Called last, because the order of names is the state dict's.
  void MakeShortcut(int64_t in, int64_t out, int64_t stride, const std::string& name);
  at::Tensor AddShortcut(at::Tensor y, const at::Tensor& x);

 private:
  torch::nn::Conv2d shortcut_conv_{nullptr};
  std::shared_ptr<BatchNorm> shortcut_bn_;
};

/// The residual is bn2(conv2(relu(bn1(conv1(x))))), both 3x3. out = width.
class BasicBlock : public ResNetBlock {
 public:
  static constexpr int64_t kExpansion = 1;  // out / width
  BasicBlock(int64_t in, int64_t width, int64_t stride, const std::string& shortcut_name);

  at::Tensor forward(const at::Tensor& x) override;
  void ZeroLastNorm() override { bn2_->named_parameters()["weight"].zero_(); }

 private:
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
};

/// The residual is of convolutions of 1x1, 3x3 and 1x1, each with its batch norm, the first two with relu.
/// out = 4 width. The 3x3 one has the stride, as in torchvision ("ResNet v1.5"), and not the first 1x1.
class Bottleneck : public ResNetBlock {
 public:
  static constexpr int64_t kExpansion = 4;
  Bottleneck(int64_t in, int64_t width, int64_t stride, const std::string& shortcut_name);

  at::Tensor forward(const at::Tensor& x) override;
  void ZeroLastNorm() override { bn3_->named_parameters()["weight"].zero_(); }

 private:
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  torch::nn::Conv2d conv3_;
  std::shared_ptr<BatchNorm> bn3_;
};

/// Blocks named 0, 1, ...; the first one changes the shape.
class ResNetStage : public torch::nn::Module {
 public:
  ResNetStage() : torch::nn::Module("ResNetStage") {}
  void Append(const std::shared_ptr<ResNetBlock>& block);

  at::Tensor forward(at::Tensor x);
  void ZeroLastNorms();

 private:
  std::vector<std::shared_ptr<ResNetBlock>> blocks_;
};

}  // namespace mtrun::models
