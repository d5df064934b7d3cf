#include "trainers/optim/clip_grad_norm.h"

namespace mtrun::trainers {

at::Tensor ClipGradients(const std::vector<at::Tensor>& gradients, double max_norm) {
  torch::NoGradGuard no_grad;
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  const at::Tensor factor = (max_norm / (norm + 1e-6)).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor);
  return norm;
}

}  // namespace mtrun::trainers
