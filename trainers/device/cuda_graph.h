// CUDA graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "trainers/device/graph.h"

namespace mtrun::trainers {

/// Makes CUDA graphs on `device`, a GPU. From here on the calling thread computes in a stream of its own,
/// since CUDA's default one cannot be captured: call it before anything lies on the device.
/// kFailedPrecondition where the program was built without CUDA.
absl::StatusOr<GraphFactory> CudaGraphs(at::Device device);

}  // namespace mtrun::trainers
