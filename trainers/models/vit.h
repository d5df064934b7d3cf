// A vision transformer for 32x32 images (Dosovitskiy et al. 2021): patches of 4x4, dimension 192, 6 pre-norm
// blocks, 3 heads; 2,690,506 parameters with 10 classes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include "trainers/models/dropout.h"

namespace mtrun::models {

struct VitOptions {
  int64_t classes = 10;
  int64_t image_size = 32, patch = 4;       // patch divides image_size
  int64_t dim = 192, depth = 6, heads = 3;  // heads divides dim
  /// Dropout of elements: after the positions' norm, attention's projection, and each layer of the MLP.
  double dropout = 0.1;
  /// Dropout of whole residual branches of a sample.
  double drop_path = 0.1;
};

class VitBlock;
class VitEmbedding;

/// Maps [n, 3, S, S] to logits [n, classes]. Names: embedding.{cls_token,pos_embedding,proj,norm},
/// encoder.<i>.{norm1,attn.{qkv,proj},norm2,fc1,fc2}, norm, classifier.
class VisionTransformer : public torch::nn::Module {
 public:
  /// Initialises linear weights as truncated normal 0.02. Their biases, the class token and the positions are
  /// 0. A pure function of `seed`.
  explicit VisionTransformer(uint64_t seed, const VitOptions& options = {});

  at::Tensor forward(const at::Tensor& images);

  /// Sets the micro-batch's stream before each forward pass. Training mode draws dropout from it.
  void SetStream(at::Tensor stream) { dropout_->SetStream(std::move(stream)); }

 private:
  const std::shared_ptr<DropoutSource> dropout_;
  std::shared_ptr<VitEmbedding> embedding_;
  std::vector<std::shared_ptr<VitBlock>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear classifier_;
};

}  // namespace mtrun::models
