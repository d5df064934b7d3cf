// CNN-B: ResNet-18 for 32x32 images (3x3 stem, no pooling before the stages); with 10 classes 11,173,962
// parameters.
#pragma once

#include <cstdint>
#include <memory>

#include <torch/torch.h>

#include "trainers/models/basic_block.h"

namespace mtrun::models {

/// [n, 3, 32, 32] -> logits [n, classes]. Names: conv1, bn1,
/// layer1..4.{0,1}.{conv1,bn1,conv2,bn2,shortcut.{0,1}}, fc.
class ResNetCifar : public torch::nn::Module {
 public:
  static constexpr int kImageSize = 32;

  /// Convolutions Kaiming normal (fan_out), batch norm 1 and 0, the last layer PyTorch's default; a pure
  /// function of `seed`.
  explicit ResNetCifar(uint64_t seed, int64_t classes = 10);

  at::Tensor forward(const at::Tensor& images);

 private:
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::shared_ptr<ResNetStage> layer1_, layer2_, layer3_, layer4_;
  torch::nn::Linear fc_;
};

}  // namespace mtrun::models
