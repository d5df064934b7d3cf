#include "trainers/models/normal_init.h"

#include <cmath>

#include <ATen/Parallel.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "base/splitmix.h"

namespace mtrun::models {
namespace {

constexpr int64_t kGrain = 1 << 14;

/// Returns the first of draws i, i + numel, i + 2 numel, ... within the bounds. It depends only on i, so that
/// threads can share the work.
double Draw(const NamedStream& stream, int64_t i, int64_t numel, double std, double bound) {
  for (uint64_t index = i;; index += numel) {
    const double value = std * stream.Normal(index);
    if (std::abs(value) <= bound) return value;
  }
}

void Fill(at::Tensor tensor, uint64_t seed, const std::string& name, double std, double bound) {
  const NamedStream stream(seed, "init/" + name);
  at::Tensor values = at::empty(tensor.sizes(), at::kFloat);
  float* out = values.data_ptr<float>();
  const int64_t numel = values.numel();
  at::parallel_for(0, numel, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(Draw(stream, i, numel, std, bound));
  });
  torch::NoGradGuard no_grad;
  tensor.copy_(values);
}

}  // namespace

void NormalInit(at::Tensor tensor, uint64_t seed, const std::string& name, double std) {
  Fill(std::move(tensor), seed, name, std, INFINITY);
}

void KaimingNormalFanOut(torch::nn::Module& module, uint64_t seed) {
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    const auto* conv = item.value()->as<torch::nn::Conv2dImpl>();
    if (conv == nullptr) continue;
    const auto fan_out = static_cast<double>(conv->weight.numel() / conv->weight.size(1));
    NormalInit(conv->weight, seed, item.key() + ".weight", std::sqrt(2.0 / fan_out));
  }
}

void TruncatedNormalLinear(torch::nn::Module& module, uint64_t seed, double std) {
  torch::NoGradGuard no_grad;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    auto* linear = item.value()->as<torch::nn::LinearImpl>();
    if (linear == nullptr) continue;
    Fill(linear->weight, seed, item.key() + ".weight", std, /*bound=*/2.0);
    if (linear->bias.defined()) linear->bias.zero_();
  }
}

}  // namespace mtrun::models
