#include "trainers/models/dropout.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "trainers/random/draw.h"

namespace mtrun::models {

at::Tensor DropoutSource::Keep(at::IntArrayRef shape, const at::Tensor& like, double p) {
  torch::NoGradGuard no_grad;
  const at::Tensor keep = trainers::DrawKept(shape, p, stream_, next_);
  next_ += (keep.numel() + 3) / 4 * 4;
  return keep.to(like.scalar_type());
}

at::Tensor DropoutSource::Elements(const at::Tensor& x, double p) { return x * Keep(x.sizes(), x, p); }

at::Tensor DropoutSource::Rows(const at::Tensor& x, double p) {
  std::vector<int64_t> shape(x.dim(), 1);
  shape[0] = x.size(0);
  return x * Keep(shape, x, p);
}

}  // namespace mtrun::models
