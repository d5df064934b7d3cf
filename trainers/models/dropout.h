// Dropout from a given stream, so that it depends on the micro-batch of a step and not on the worker that
// computes it. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

namespace mtrun::models {

/// Source for a whole network. Its layers draw from it in the order of the forward pass.
class DropoutSource {
 public:
  /// Called before each forward pass. `stream` (trainers/random/draw.h) must be on the device of the tensors.
  void SetStream(at::Tensor stream) {
    stream_ = std::move(stream);
    next_ = 0;
  }

  /// Sets each element to 0 with probability p, or else divides it by 1 - p.
  at::Tensor Elements(const at::Tensor& x, double p);
  /// Does the same for whole rows x[i]: a sample omits a residual branch ("stochastic depth", Huang et al.
  /// 2016).
  at::Tensor Rows(const at::Tensor& x, double p);

 private:
  at::Tensor Keep(at::IntArrayRef shape, const at::Tensor& like, double p);

  at::Tensor stream_;
  int64_t next_ = 0;  // next number of the stream, a multiple of 4
};

}  // namespace mtrun::models
