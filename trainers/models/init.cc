#include "trainers/models/init.h"

#include <cmath>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "base/splitmix.h"

namespace mtrun::models {

void UniformInit(at::Tensor tensor, uint64_t seed, const std::string& name, double bound) {
  const NamedStream stream(seed, "init/" + name);
  at::Tensor values = at::empty(tensor.sizes(), at::kDouble);
  double* out = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) out[i] = bound * stream.Signed(static_cast<uint64_t>(i));
  torch::NoGradGuard no_grad;
  tensor.copy_(values);
}

void DefaultInit(torch::nn::Module& module, uint64_t seed) {
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    const bool layer = item.value()->as<torch::nn::Conv2dImpl>() || item.value()->as<torch::nn::LinearImpl>();
    if (!layer) continue;
    const auto parameters = item.value()->named_parameters(false);
    const at::Tensor& weight = parameters["weight"];
    const double bound = 1.0 / std::sqrt(static_cast<double>(weight.numel() / weight.size(0)));
    for (const auto& parameter : parameters) {
      UniformInit(parameter.value(), seed, item.key() + "." + parameter.key(), bound);
    }
  }
}

}  // namespace mtrun::models
