#include "trainers/models/init.h"

#include <cmath>

#include <ATen/Parallel.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "base/splitmix.h"

namespace mtrun::models {
namespace {

constexpr int64_t kNumbersPerThread = 1 << 14;  // at least

/// Sets element i to draw(stream, i), computed in Real, for the stream (seed, "init/" + name).
template <typename Real, typename Draw>
void Fill(at::Tensor tensor, uint64_t seed, const std::string& name, const Draw& draw) {
  const NamedStream stream(seed, "init/" + name);
  at::Tensor values = at::empty(tensor.sizes(), c10::CppTypeToScalarType<Real>::value);
  Real* out = values.data_ptr<Real>();
  at::parallel_for(0, values.numel(), kNumbersPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<Real>(draw(stream, i));
  });
  torch::NoGradGuard no_grad;
  tensor.copy_(values);
}

void FillUniform(at::Tensor tensor, uint64_t seed, const std::string& name, double bound) {
  Fill<double>(std::move(tensor), seed, name, [bound](const NamedStream& stream, int64_t i) {
    return bound * stream.Signed(static_cast<uint64_t>(i));
  });
}

/// Takes the first of draws i, i + numel, i + 2 numel, ... within the bounds. It depends only on i, so that
/// threads can share the work.
void FillNormal(at::Tensor tensor, uint64_t seed, const std::string& name, double std, double bound) {
  const int64_t numel = tensor.numel();
  Fill<float>(std::move(tensor), seed, name, [=](const NamedStream& stream, int64_t i) {
    for (uint64_t index = i;; index += numel) {
      const double value = std * stream.Normal(index);
      if (std::abs(value) <= bound) return value;
    }
  });
}

}  // namespace

void DefaultInitLayer(torch::nn::Module& layer, uint64_t seed, const std::string& name) {
  const auto parameters = layer.named_parameters(false);
  const at::Tensor& weight = parameters["weight"];
  const double bound = 1.0 / std::sqrt(static_cast<double>(weight.numel() / weight.size(0)));
  for (const auto& parameter : parameters) {
    FillUniform(parameter.value(), seed, name + "." + parameter.key(), bound);
  }
}

void DefaultInit(torch::nn::Module& module, uint64_t seed) {
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    if (item.value()->as<torch::nn::Conv2dImpl>() || item.value()->as<torch::nn::LinearImpl>())
      DefaultInitLayer(*item.value(), seed, item.key());
  }
}

void NormalInit(at::Tensor tensor, uint64_t seed, const std::string& name, double std) {
  FillNormal(std::move(tensor), seed, name, std, INFINITY);
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
    FillNormal(linear->weight, seed, item.key() + ".weight", std, /*bound=*/2.0);
    if (linear->bias.defined()) linear->bias.zero_();
  }
}

}  // namespace mtrun::models
