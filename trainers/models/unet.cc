#include "trainers/models/unet.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/models/init.h"

namespace mtrun::models {
namespace {

torch::nn::Conv2d Conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2));
}

torch::nn::GroupNorm GroupNorm(int64_t groups, int64_t channels) {
  return torch::nn::GroupNorm(torch::nn::GroupNormOptions(std::min(groups, channels), channels));
}

std::shared_ptr<torch::nn::Module> Container(const std::string& name) {
  return std::make_shared<torch::nn::Module>(name);
}

void Zero(const torch::nn::Conv2d& conv) {
  torch::NoGradGuard no_grad;
  conv->weight.zero_();
  conv->bias.zero_();
}

}  // namespace

at::Tensor TimeEmbedding(const at::Tensor& t, int64_t dim) {
  const int64_t half = dim / 2;
  const double rate = -std::log(10000.0) / static_cast<double>(half - 1);
  const at::Tensor frequency = at::arange(half, t.options().dtype(at::kDouble)).mul_(rate).exp_();
  const at::Tensor angle = t.to(at::kDouble).unsqueeze(1) * frequency.unsqueeze(0);
  return at::cat({angle.sin(), angle.cos()}, 1);
}

/// skip(x) + conv2(silu(norm2(conv1(silu(norm1(x))) + temb(silu(t))))). The skip is a 1x1 convolution if
/// channels change.
class UnetResBlock : public torch::nn::Module {
 public:
  UnetResBlock(int64_t in, int64_t out, int64_t time_dim, int64_t groups)
      : torch::nn::Module("UnetResBlock"),
        norm1_(register_module("norm1", GroupNorm(groups, in))),
        conv1_(register_module("conv1", Conv(in, out, 3))),
        temb_(register_module("temb", torch::nn::Linear(time_dim, out))),
        norm2_(register_module("norm2", GroupNorm(groups, out))),
        conv2_(register_module("conv2", Conv(out, out, 3))) {
    if (in != out) skip_ = register_module("skip", Conv(in, out, 1));
  }

  /// `activated_time`: silu of the time embedding, the same for all blocks.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& activated_time) {
    const at::Tensor shift = temb_->forward(activated_time).unsqueeze(2).unsqueeze(3);
    const at::Tensor h = conv1_->forward(at::silu(norm1_->forward(x))) + shift;
    return (skip_ ? skip_->forward(x) : x) + conv2_->forward(at::silu(norm2_->forward(h)));
  }
  void ZeroBranch() { Zero(conv2_); }

 private:
  torch::nn::GroupNorm norm1_;
  torch::nn::Conv2d conv1_;
  torch::nn::Linear temb_;
  torch::nn::GroupNorm norm2_;
  torch::nn::Conv2d conv2_;
  torch::nn::Conv2d skip_{nullptr};
};

/// Attention with one head over positions; qkv and proj are 1x1 convolutions.
class UnetAttention : public torch::nn::Module {
 public:
  UnetAttention(int64_t channels, int64_t groups)
      : torch::nn::Module("UnetAttention"),
        norm_(register_module("norm", GroupNorm(groups, channels))),
        qkv_(register_module("qkv", Conv(channels, 3 * channels, 1))),
        proj_(register_module("proj", Conv(channels, channels, 1))) {}

  at::Tensor forward(const at::Tensor& x) {
    const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
    const auto qkv = qkv_->forward(norm_->forward(x)).reshape({n, 3, c, h * w}).transpose(2, 3).unbind(1);
    const at::Tensor y =
        at::scaled_dot_product_attention(qkv[0].unsqueeze(1), qkv[1].unsqueeze(1), qkv[2].unsqueeze(1))
            .squeeze(1);
    return x + proj_->forward(y.transpose(1, 2).reshape({n, c, h, w}));
  }
  void ZeroBranch() { Zero(proj_); }

 private:
  torch::nn::GroupNorm norm_;
  torch::nn::Conv2d qkv_, proj_;
};

Unet::Unet(uint64_t seed, const UnetOptions& options)
    : torch::nn::Module("Unet"),
      options_(options),
      time_dim_(4 * options.channels),
      groups_(std::min(options.groups, options.channels)),
      time1_(register_module("time1", torch::nn::Linear(options.channels, time_dim_))),
      time2_(register_module("time2", torch::nn::Linear(time_dim_, time_dim_))),
      conv_in_(register_module("conv_in", Conv(3, options.channels, 3))),
      down_tree_(register_module("down", Container("Down"))),
      up_tree_(register_module("up", Container("Up"))),
      attention_tree_(register_module("attn", Container("Attention"))),
      downsample_tree_(register_module("downsample", Container("Downsample"))),
      upsample_tree_(register_module("upsample", Container("Upsample"))) {
  MT_CHECK(options.channels % 2 == 0 && options.channels > 2 && !options.mults.empty());
  MT_CHECK(options.image_size % (int64_t{1} << (options.mults.size() - 1)) == 0)
      << "image size " << options.image_size;
  std::vector<int64_t> skips{options.channels};
  int64_t c = options.channels;
  BuildDown(skips, c);
  middle1_ = register_module("middle1", std::make_shared<UnetResBlock>(c, c, time_dim_, groups_));
  middle2_ = register_module("middle2", std::make_shared<UnetResBlock>(c, c, time_dim_, groups_));
  middle_attention_ = register_module("middle_attn", std::make_shared<UnetAttention>(c, groups_));
  BuildUp(skips, c);
  norm_out_ = register_module("norm_out", GroupNorm(groups_, c));
  conv_out_ = register_module("conv_out", Conv(c, 3, 3));
  if (options.classes > 0) {
    class_embedding_ =
        register_module("class_embedding", torch::nn::Embedding(options.classes + 1, time_dim_));
  }
  Initialise(seed);
}

void Unet::BuildDown(std::vector<int64_t>& skips, int64_t& c) {
  const auto levels = static_cast<int64_t>(options_.mults.size());
  for (int64_t level = 0; level < levels; ++level) {
    const int64_t out = options_.channels * options_.mults[level];
    const auto stack = down_tree_->register_module(std::to_string(level), Container("Level"));
    Stack& blocks = down_.emplace_back();
    for (int64_t k = 0; k < options_.blocks; ++k) {
      blocks.push_back(stack->register_module(std::to_string(k),
                                              std::make_shared<UnetResBlock>(c, out, time_dim_, groups_)));
      c = out;
      AddAttention(absl::StrCat("down_", level, "_", k), level, c);
      skips.push_back(c);
    }
    if (level + 1 < levels) {
      downsample_.push_back(downsample_tree_->register_module(std::to_string(level), Conv(c, c, 3, 2)));
      skips.push_back(c);
    }
  }
}

void Unet::BuildUp(std::vector<int64_t>& skips, int64_t& c) {
  const auto levels = static_cast<int64_t>(options_.mults.size());
  up_.resize(levels);
  upsample_.resize(levels, torch::nn::Conv2d(nullptr));
  for (int64_t level = levels - 1; level >= 0; --level) {
    const int64_t out = options_.channels * options_.mults[level];
    const auto stack = up_tree_->register_module(std::to_string(level), Container("Level"));
    for (int64_t k = 0; k <= options_.blocks; ++k) {
      const int64_t in = c + skips.back();
      skips.pop_back();
      up_[level].push_back(stack->register_module(
          std::to_string(k), std::make_shared<UnetResBlock>(in, out, time_dim_, groups_)));
      c = out;
      AddAttention(absl::StrCat("up_", level, "_", k), level, c);
    }
    if (level > 0) upsample_[level] = upsample_tree_->register_module(std::to_string(level), Conv(c, c, 3));
  }
}

void Unet::AddAttention(const std::string& name, int64_t level, int64_t channels) {
  const auto& sizes = options_.attention;
  if (std::find(sizes.begin(), sizes.end(), options_.image_size >> level) == sizes.end()) return;
  attention_[name] =
      attention_tree_->register_module(name, std::make_shared<UnetAttention>(channels, groups_));
}

void Unet::Initialise(uint64_t seed) {
  DefaultInit(*this, seed);
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* block = module->as<UnetResBlock>()) block->ZeroBranch();
    if (auto* attention = module->as<UnetAttention>()) attention->ZeroBranch();
  }
  Zero(conv_out_);
  if (class_embedding_) NormalInit(class_embedding_->weight, seed, "class_embedding.weight", 1.0);
}

at::Tensor Unet::Attend(const std::string& name, const at::Tensor& x) {
  const auto found = attention_.find(name);
  return found == attention_.end() ? x : found->second->forward(x);
}

at::Tensor Unet::Embed(const at::Tensor& t, const at::Tensor& labels, at::ScalarType dtype) {
  MT_CHECK(labels.defined() == static_cast<bool>(class_embedding_))
      << "labels need a class-conditional network";
  at::Tensor embedding = TimeEmbedding(t, options_.channels).to(dtype);
  embedding = time2_->forward(at::silu(time1_->forward(embedding)));
  if (class_embedding_) embedding = embedding + class_embedding_->forward(labels);
  return at::silu(embedding);
}

at::Tensor Unet::forward(const at::Tensor& images, const at::Tensor& t, const at::Tensor& labels) {
  const at::Tensor time = Embed(t, labels, images.scalar_type());
  const auto levels = static_cast<int64_t>(options_.mults.size());
  at::Tensor x = conv_in_->forward(images);
  std::vector<at::Tensor> skips{x};
  for (int64_t level = 0; level < levels; ++level) {
    for (int64_t k = 0; k < options_.blocks; ++k) {
      x = Attend(absl::StrCat("down_", level, "_", k), down_[level][k]->forward(x, time));
      skips.push_back(x);
    }
    if (level + 1 < levels) {
      x = downsample_[level]->forward(x);
      skips.push_back(x);
    }
  }
  x = middle2_->forward(middle_attention_->forward(middle1_->forward(x, time)), time);
  for (int64_t level = levels - 1; level >= 0; --level) {
    for (int64_t k = 0; k <= options_.blocks; ++k) {
      x = at::cat({x, skips.back()}, 1);
      skips.pop_back();
      x = Attend(absl::StrCat("up_", level, "_", k), up_[level][k]->forward(x, time));
    }
    if (level > 0) {
      x = at::upsample_nearest2d(x, {2 * x.size(2), 2 * x.size(3)});
      x = upsample_[level]->forward(x);
    }
  }
  return conv_out_->forward(at::silu(norm_out_->forward(x)));
}

}  // namespace mtrun::models
