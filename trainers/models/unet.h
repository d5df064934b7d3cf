// The U-Net of denoising diffusion (Ho et al. 2020): predicts noise or velocity for noisy images and times.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

namespace mtrun::models {

struct UnetOptions {
  int64_t channels = 64;
  std::vector<int64_t> mults = {1, 2, 2, 2};  // channels of each level, in units of `channels`
  int64_t blocks = 2;                         // per level downwards; one more upwards
  std::vector<int64_t> attention = {16};      // sizes of the levels with attention
  int64_t image_size = 32;                    // divisible by 2^(levels - 1)
  int64_t groups = 32;                        // of group normalisation, at most `channels`
  int64_t classes = 0;                        // > 0: class-conditional
};

class UnetResBlock;
class UnetAttention;

/// Maps (noisy images [n, 3, S, S], int64 times [n]) to [n, 3, S, S]. Names as in the Python network of the
/// parity tests: time1, time2, conv_in, down.<level>.<k>, up.<level>.<k>, attn.{down,up}_<level>_<k>,
/// downsample.<level>, upsample.<level>, middle1, middle2, middle_attn, norm_out, conv_out, and
/// class_embedding if there are classes.
class Unet : public torch::nn::Module {
 public:
  /// Applies PyTorch's default initialisation. As in the paper's code, the last convolution of each residual
  /// branch and of the network is 0. A pure function of `seed`.
  explicit Unet(uint64_t seed, const UnetOptions& options = {});

  /// `labels`: int64 [n] in [0, classes], where `classes` itself means "no class" (classifier-free guidance).
  /// Undefined if and only if the network has no classes.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels = {});

  const UnetOptions& options() const { return options_; }

 private:
  using Stack = std::vector<std::shared_ptr<UnetResBlock>>;
  void BuildDown(std::vector<int64_t>& skips, int64_t& c);
  void BuildUp(std::vector<int64_t>& skips, int64_t& c);
  void AddAttention(const std::string& name, int64_t level, int64_t channels);
  at::Tensor Attend(const std::string& name, const at::Tensor& x);
  at::Tensor Embed(const at::Tensor& t, const at::Tensor& labels, at::ScalarType dtype);
  void Initialise(uint64_t seed);

  const UnetOptions options_;
  const int64_t time_dim_, groups_;
  torch::nn::Linear time1_, time2_;
  torch::nn::Conv2d conv_in_;
  std::shared_ptr<torch::nn::Module> down_tree_, up_tree_, attention_tree_, downsample_tree_, upsample_tree_;
  std::vector<Stack> down_, up_;  // by level
  std::map<std::string, std::shared_ptr<UnetAttention>> attention_;
  std::vector<torch::nn::Conv2d> downsample_, upsample_;  // by level; upsample_[0] is empty
  std::shared_ptr<UnetResBlock> middle1_, middle2_;
  std::shared_ptr<UnetAttention> middle_attention_;
  torch::nn::GroupNorm norm_out_{nullptr};
  torch::nn::Conv2d conv_out_{nullptr};
  torch::nn::Embedding class_embedding_{nullptr};
};

/// Maps int64 [n] to [n, dim] in float64: sin, then cos, of t * 10000^(-i / (dim/2 - 1)), i < dim/2.
at::Tensor TimeEmbedding(const at::Tensor& t, int64_t dim);

}  // namespace mtrun::models
