// Dropout from a stream that is given, so that what is dropped belongs to a micro-batch of a step and not to
// the worker that computes it. Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

namespace mtrun::models {

/// One for a whole network: its layers draw from it in the order of the forward pass.
class DropoutSource {
 public:
  /// Before each forward pass. `stream` (trainers/random/draw.h) must be on the device of the tensors.
  void SetStream(at::Tensor stream) {
    stream_ = std::move(stream);
    next_ = 0;
  }

  /// Each element is 0 with probability p, else divided by 1 - p.
  at::Tensor Elements(const at::Tensor& x, double p);
  /// The same for whole rows x[i]: a residual branch is left out of a sample ("stochastic depth", Huang et
  /// al. 2016).
  at::Tensor Rows(const at::Tensor& x, double p);

 private:
  at::Tensor Keep(at::IntArrayRef shape, const at::Tensor& like, double p);

  at::Tensor stream_;
  int64_t next_ = 0;  // number of the stream, a multiple of 4
};

}  // namespace mtrun::models
