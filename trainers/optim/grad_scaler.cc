#include "trainers/optim/grad_scaler.h"

namespace mtrun::trainers {

GradScaler::GradScaler(at::Device device, const Options& options)
    : options_(options),
      scale_(at::full({1}, options.initial_scale, at::TensorOptions(at::kFloat).device(device))),
      growth_tracker_(at::zeros({1}, at::TensorOptions(at::kInt).device(device))),
      found_inf_(at::zeros({1}, at::TensorOptions(at::kFloat).device(device))) {}

at::Tensor GradScaler::RootGradient(const at::Tensor& loss, double weight) const {
  return (scale_ * weight).to(loss.scalar_type()).squeeze(0);
}

void GradScaler::Unscale(const std::vector<at::Tensor>& gradients) {
  torch::NoGradGuard no_grad;
  found_inf_.zero_();
  // In double, as torch does: 1 / scale of a large scale would not be exact in float32.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, inverse);
}

void GradScaler::Update() {
  torch::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
}

std::vector<std::pair<std::string, at::Tensor>> GradScaler::State() const {
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

}  // namespace mtrun::trainers
