#include "trainers/models/vit.h"

#include <string>

#include "base/status_macros.h"
#include "trainers/models/init.h"

namespace mtrun::models {
namespace {

constexpr double kInitStd = 0.02;

torch::nn::LayerNorm LayerNorm(int64_t dim) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim}));
}

}  // namespace

/// Dropout options of a block, and their source.
struct VitDrop {
  double dropout, drop_path;
  std::shared_ptr<DropoutSource> source;

  at::Tensor Elements(const at::Tensor& x, bool training) const {
    return training && dropout > 0 ? source->Elements(x, dropout) : x;
  }
  at::Tensor Branch(const at::Tensor& x, bool training) const {
    return training && drop_path > 0 ? source->Rows(x, drop_path) : x;
  }
};

/// Patches in row-major order after the class token, each flattened as (channel, row, column). The norm comes
/// after the positions.
class VitEmbedding : public torch::nn::Module {
 public:
  VitEmbedding(const VitOptions& options, VitDrop drop)
      : torch::nn::Module("VitEmbedding"),
        side_(options.image_size / options.patch),
        patch_(options.patch),
        drop_(std::move(drop)),
        cls_token_(register_parameter("cls_token", at::zeros({1, 1, options.dim}))),
        pos_embedding_(register_parameter("pos_embedding", at::zeros({1, side_ * side_ + 1, options.dim}))),
        proj_(register_module("proj", torch::nn::Linear(3 * patch_ * patch_, options.dim))),
        norm_(register_module("norm", LayerNorm(options.dim))) {}

  at::Tensor forward(const at::Tensor& images) {
    const int64_t n = images.size(0);
    const at::Tensor patches = images.reshape({n, 3, side_, patch_, side_, patch_})
                                   .permute({0, 2, 4, 1, 3, 5})
                                   .reshape({n, side_ * side_, 3 * patch_ * patch_});
    const at::Tensor x = at::cat({cls_token_.expand({n, -1, -1}), proj_->forward(patches)}, 1);
    return drop_.Elements(norm_->forward(x + pos_embedding_), is_training());
  }

 private:
  const int64_t side_, patch_;
  const VitDrop drop_;
  at::Tensor cls_token_, pos_embedding_;
  torch::nn::Linear proj_;
  torch::nn::LayerNorm norm_;
};

/// x + attention(norm1(x)), then x + mlp(norm2(x)).
class VitBlock : public torch::nn::Module {
 public:
  VitBlock(const VitOptions& options, VitDrop drop)
      : torch::nn::Module("VitBlock"),
        heads_(options.heads),
        drop_(std::move(drop)),
        norm1_(register_module("norm1", LayerNorm(options.dim))) {
    const int64_t dim = options.dim;
    const auto attention = register_module("attn", std::make_shared<torch::nn::Module>("Attention"));
    qkv_ = attention->register_module("qkv",
                                      torch::nn::Linear(torch::nn::LinearOptions(dim, 3 * dim).bias(false)));
    proj_ = attention->register_module("proj", torch::nn::Linear(dim, dim));
    norm2_ = register_module("norm2", LayerNorm(dim));
    fc1_ = register_module("fc1", torch::nn::Linear(dim, 4 * dim));
    fc2_ = register_module("fc2", torch::nn::Linear(4 * dim, dim));
  }

  at::Tensor forward(const at::Tensor& x) {
    const bool training = is_training();
    const at::Tensor y = x + drop_.Branch(Attend(norm1_->forward(x)), training);
    const at::Tensor hidden = drop_.Elements(at::gelu(fc1_->forward(norm2_->forward(y))), training);
    return y + drop_.Branch(drop_.Elements(fc2_->forward(hidden), training), training);
  }

 private:
  at::Tensor Attend(const at::Tensor& x) {
    const int64_t n = x.size(0), tokens = x.size(1), dim = x.size(2);
    const auto qkv =
        qkv_->forward(x).reshape({n, tokens, 3, heads_, dim / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor y =
        at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]).transpose(1, 2).reshape({n, tokens, dim});
    return drop_.Elements(proj_->forward(y), is_training());
  }

  const int64_t heads_;
  const VitDrop drop_;
  torch::nn::LayerNorm norm1_;
  torch::nn::Linear qkv_{nullptr}, proj_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

VisionTransformer::VisionTransformer(uint64_t seed, const VitOptions& options)
    : torch::nn::Module("VisionTransformer"),
      dropout_(std::make_shared<DropoutSource>()),
      norm_(nullptr),
      classifier_(nullptr) {
  MT_CHECK(options.image_size % options.patch == 0 && options.dim % options.heads == 0);
  const VitDrop drop{options.dropout, options.drop_path, dropout_};
  embedding_ = register_module("embedding", std::make_shared<VitEmbedding>(options, drop));
  const auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>("Encoder"));
  for (int64_t i = 0; i < options.depth; ++i) {
    blocks_.push_back(encoder->register_module(std::to_string(i), std::make_shared<VitBlock>(options, drop)));
  }
  norm_ = register_module("norm", LayerNorm(options.dim));
  classifier_ = register_module("classifier", torch::nn::Linear(options.dim, options.classes));
  TruncatedNormalLinear(*this, seed, kInitStd);
}

at::Tensor VisionTransformer::forward(const at::Tensor& images) {
  at::Tensor x = embedding_->forward(images);
  for (const auto& block : blocks_) x = block->forward(x);
  // The norm works on each token separately, and only the class token is read.
  return classifier_->forward(norm_->forward(x.select(1, 0)));
}

}  // namespace mtrun::models
