// ResNet-18 for 224x224 images with torchvision's parameter names, for training from scratch and for transfer
// learning.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/torch.h>

#include "trainers/models/basic_block.h"

namespace mtrun::models {

/// [n, 3, S, S] -> logits [n, classes], S = 224 by design (any S >= 32 works). Names: conv1, bn1,
/// layer1..4.{0,1}.{conv1,bn1,conv2,bn2,downsample.{0,1}}, fc.
class ResNet18 : public torch::nn::Module {
 public:
  static constexpr int kImageSize = 224;

  /// torchvision's initialisation (Kaiming normal fan_out), a pure function of `seed`.
  explicit ResNet18(uint64_t seed, int64_t classes = 10);

  at::Tensor forward(const at::Tensor& images);

  /// Everything but the last layer stops learning and stays in evaluation mode, so its running statistics
  /// stand still too.
  void FreezeBackbone();
  /// Training mode of what is not frozen.
  void train(bool on = true) override;

 private:
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::shared_ptr<ResNetStage> layer1_, layer2_, layer3_, layer4_;
  torch::nn::Linear fc_;
  bool frozen_ = false;
};

}  // namespace mtrun::models
