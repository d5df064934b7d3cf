#include "trainers/models/dropout.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "base/status_macros.h"

namespace mtrun::models {

at::Tensor DropoutSource::Keep(at::IntArrayRef shape, const at::Tensor& like, double p) {
  MT_CHECK(p > 0 && p < 1) << "drop probability " << p;
  torch::NoGradGuard no_grad;
  at::Tensor keep = at::empty(shape, like.options().requires_grad(false));
  if (generator_.defined()) {
    keep.bernoulli_(1 - p, generator_);
  } else {
    keep.bernoulli_(1 - p);
  }
  return keep.div_(1 - p);
}

at::Tensor DropoutSource::Elements(const at::Tensor& x, double p) { return x * Keep(x.sizes(), x, p); }

at::Tensor DropoutSource::Rows(const at::Tensor& x, double p) {
  std::vector<int64_t> shape(x.dim(), 1);
  shape[0] = x.size(0);
  return x * Keep(shape, x, p);
}

}  // namespace mtrun::models
