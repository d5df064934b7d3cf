// CNN-A: two convolutions and two linear layers for 32x32 images; 9,986 parameters with 10 classes.
#pragma once

#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace mtrun::models {

/// Maps [n, 3, 32, 32] to logits [n, classes]. Parameters have PyTorch's names: conv1, conv2, fc1, fc2 with
/// .weight and .bias.
class CnnA : public torch::nn::Module {
 public:
  static constexpr int kImageSize = 32;

  /// Applies PyTorch's default initialisation, as a pure function of `seed`.
  explicit CnnA(uint64_t seed, int64_t classes = 10);

  at::Tensor forward(const at::Tensor& images);

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Linear fc1_, fc2_;
};

}  // namespace mtrun::models
