// Residual block of ResNet-18 (He et al. 2016), for small and large images.
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

/// Returns a 3x3 (padding 1) or 1x1 convolution without bias, as in ResNets.
torch::nn::Conv2d ConvWithoutBias(int64_t in, int64_t out, int64_t kernel, int64_t stride);

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)). [n, in, H, W] -> [n, out, H/stride, W/stride].
class BasicBlock : public torch::nn::Module {
 public:
  /// `shortcut_name`: "shortcut" or torchvision's "downsample". Its entries .0 (1x1 convolution) and .1
  /// (batch norm) exist only if the shape changes.
  BasicBlock(int64_t in, int64_t out, int64_t stride, const std::string& shortcut_name);

  at::Tensor forward(const at::Tensor& x);
  /// Must be called without gradients.
  void ZeroLastNorm() { bn2_->named_parameters()["weight"].zero_(); }

 private:
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  torch::nn::Conv2d conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  torch::nn::Conv2d shortcut_conv_{nullptr};
  std::shared_ptr<BatchNorm> shortcut_bn_;
};

/// Two blocks named 0 and 1; the first one changes the shape.
class ResNetStage : public torch::nn::Module {
 public:
  ResNetStage(int64_t in, int64_t out, int64_t stride, const std::string& shortcut_name);

  at::Tensor forward(const at::Tensor& x) { return second_->forward(first_->forward(x)); }
  void ZeroLastNorms() {
    first_->ZeroLastNorm();
    second_->ZeroLastNorm();
  }

 private:
  std::shared_ptr<BasicBlock> first_, second_;
};

}  // namespace mtrun::models
