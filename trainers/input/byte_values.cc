#include "trainers/input/byte_values.h"

#include <torch/types.h>

#include "base/status_macros.h"

namespace mtrun::trainers {

at::Tensor NormalisedByteValues(at::ScalarType dtype) {
  MT_CHECK(dtype == at::kFloat || dtype == at::kDouble);
  return dtype == at::kFloat ? at::tensor(at::ArrayRef<float>(NormalisedBytes<float>()))
                             : at::tensor(at::ArrayRef<double>(NormalisedBytes<double>()));
}

}  // namespace mtrun::trainers
