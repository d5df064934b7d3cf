// Residual blocks of ResNets (He et al. 2016): two convolutions of 3x3, or a bottleneck.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "trainers/models/batch_norm.h"

namespace mtrun::models {

/// Returns a 3x3 (padding 1), 7x7 (padding 3) or 1x1 convolution without bias, as in ResNets.
torch::nn::Conv2d ConvWithoutBias(int64_t in, int64_t out, int64_t kernel, int64_t stride);

/// relu(residual(x) + shortcut(x)). [n, in, H, W] -> [n, out, H/stride, W/stride]. The residual is two
/// convolutions of 3x3, or a bottleneck of 1x1, 3x3 and 1x1, each with its batch norm, all but the last with
/// relu. A bottleneck's 3x3 one has the stride, as in torchvision ("ResNet v1.5"), and not the first 1x1.
class ResNetBlock : public torch::nn::Module {
 public:
  /// Returns out / width.
  static int64_t Expansion(bool bottleneck) { return bottleneck ? 4 : 1; }
  /// `shortcut_name`: "shortcut" or torchvision's "downsample". Its entries .0 (1x1 convolution) and .1 (batch
  /// norm) exist only if the shape changes.
  ResNetBlock(int64_t in, int64_t width, int64_t stride, bool bottleneck, const std::string& shortcut_name);

  at::Tensor forward(const at::Tensor& x);
  /// Makes the block begin as its shortcut. Must be called without gradients.
  void ZeroLastNorm() { layers_.back().norm->named_parameters()["weight"].zero_(); }

 private:
  struct Layer {
    torch::nn::Conv2d conv;
    std::shared_ptr<BatchNorm> norm;
    at::Tensor forward(const at::Tensor& x) { return norm->forward(conv->forward(x)); }
  };
  void Append(int64_t in, int64_t out, int64_t kernel, int64_t stride);

  std::vector<Layer> layers_;
  std::optional<Layer> shortcut_;
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
