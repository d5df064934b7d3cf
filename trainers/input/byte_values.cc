#include "trainers/input/byte_values.h"

#include <algorithm>

#include <torch/types.h>

#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

template <typename Real>
at::Tensor ValuesAs(at::ScalarType dtype) {
  const auto& table = NormalisedBytes<Real>();
  at::Tensor values = at::empty({static_cast<int64_t>(table.size())}, dtype);
  std::copy(table.begin(), table.end(), values.data_ptr<Real>());
  return values;
}

}  // namespace

at::Tensor NormalisedByteValues(at::ScalarType dtype) {
  MT_CHECK(dtype == at::kFloat || dtype == at::kDouble);
  return dtype == at::kFloat ? ValuesAs<float>(dtype) : ValuesAs<double>(dtype);
}

}  // namespace mtrun::trainers
