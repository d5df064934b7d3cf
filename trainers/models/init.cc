#include "trainers/models/init.h"

#include <cmath>

#include <ATen/Parallel.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "base/splitmix.h"

namespace mtrun::models {
namespace {

constexpr int64_t kNumbersPerThread = 1 << 14;  // at least

}  // namespace

void UniformInit(at::Tensor tensor, uint64_t seed, const std::string& name, double bound) {
  const NamedStream stream(seed, "init/" + name);
  at::Tensor values = at::empty(tensor.sizes(), at::kDouble);
  double* out = values.data_ptr<double>();
  at::parallel_for(0, values.numel(), kNumbersPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = bound * stream.Signed(static_cast<uint64_t>(i));
  });
  torch::NoGradGuard no_grad;
  tensor.copy_(values);
}

void DefaultInitLayer(torch::nn::Module& layer, uint64_t seed, const std::string& name) {
  const auto parameters = layer.named_parameters(false);
  const at::Tensor& weight = parameters["weight"];
  const double bound = 1.0 / std::sqrt(static_cast<double>(weight.numel() / weight.size(0)));
  for (const auto& parameter : parameters) {
    UniformInit(parameter.value(), seed, name + "." + parameter.key(), bound);
  }
}

void DefaultInit(torch::nn::Module& module, uint64_t seed) {
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    if (item.value()->as<torch::nn::Conv2dImpl>() || item.value()->as<torch::nn::LinearImpl>())
      DefaultInitLayer(*item.value(), seed, item.key());
  }
}

}  // namespace mtrun::models
