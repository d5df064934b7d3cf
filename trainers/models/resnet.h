// ResNets (He et al. 2016): CNN-B for images of 32x32, and torchvision's of 18, 34 and 50 layers for 224x224,
// from scratch or by transfer learning.
#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "trainers/models/resnet_block.h"

namespace mtrun::models {

/// Differences between the networks: layers before the stages, name of a block's shortcut, number of layers.
struct ResNetDesign {
  int image_size;          // S, for which it was designed; any S >= 32 works
  int64_t kernel, stride;  // of the first convolution
  bool max_pool;           // 3x3 with stride 2 after it
  const char* shortcut;
  int depth = 18;  // 18, 34 or 50
};
/// CNN-B: 11,173,962 parameters with 10 classes.
inline constexpr ResNetDesign kResNet32{32, 3, 1, false, "shortcut"};
/// torchvision's: 11,689,512 parameters with 1000 classes; 21,797,672 of depth 34, 25,557,032 of depth 50.
constexpr ResNetDesign ResNet224(int depth = 18) { return {224, 7, 2, true, "downsample", depth}; }

/// Maps [n, 3, S, S] to logits [n, classes]. Names: conv1, bn1,
/// layer1..4.{0,1,...}.{conv1,bn1,conv2,bn2,(conv3,bn3,)<shortcut>.{0,1}}, fc.
class ResNet : public torch::nn::Module {
 public:
  /// Initialises as torchvision does: convolutions Kaiming normal (fan_out), batch norm 1 and 0, the last
  /// layer by PyTorch's default. A pure function of `seed`. `draws_body`: false if all but the last layer
  /// will be loaded; the convolutions then hold any numbers.
  ResNet(uint64_t seed, const ResNetDesign& design, int64_t classes = 10, bool draws_body = true);

  /// Returns F, the number of inputs of the last layer.
  int64_t features() const { return features_; }
  at::Tensor forward(const at::Tensor& images) { return Classify(Features(images)); }
  /// Maps [n, 3, S, S] to the last layer's input [n, F], and this to logits.
  at::Tensor Features(const at::Tensor& images);
  at::Tensor Classify(const at::Tensor& features) { return fc_->forward(features); }

  /// Makes blocks begin as their shortcuts: the weights of each one's last norm become 0 (Goyal et al. 2017).
  void ZeroLastNorms();

  /// Freezes all but the last layer. Frozen layers stay in evaluation mode, so their statistics do not
  /// change.
  void FreezeBackbone();
  /// Sets the training mode of the layers that are not frozen.
  void train(bool on = true) override;

 private:
  const bool max_pool_;
  const int64_t features_;
  torch::nn::Conv2d conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::shared_ptr<ResNetStage> layer1_, layer2_, layer3_, layer4_;
  torch::nn::Linear fc_;
  bool frozen_ = false;
};

}  // namespace mtrun::models
