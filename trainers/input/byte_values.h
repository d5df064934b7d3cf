// Normalised values of an image's bytes: (x/255 - 0.5) / 0.5, computed once for each of the 256, so that
// every way of normalising uses the same values.
#pragma once

#include <array>

#include <ATen/core/Tensor.h>

namespace mtrun::trainers {

/// Returns the values as PyTorch computes them in the same dtype, to the last bit.
template <typename Real>
const std::array<Real, 256>& NormalisedBytes() {
  static const auto table = [] {
    std::array<Real, 256> values;
    for (int x = 0; x < 256; ++x) values[x] = (static_cast<Real>(x) / Real(255) - Real(0.5)) / Real(0.5);
    return values;
  }();
  return table;
}

/// Returns the same table as a tensor [256] on the CPU. `dtype`: kFloat or kDouble.
at::Tensor NormalisedByteValues(at::ScalarType dtype);

}  // namespace mtrun::trainers
