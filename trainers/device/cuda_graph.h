// CUDA graphs.
#pragma once

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "trainers/device/graph.h"

namespace mtrun::trainers {

/// Makes CUDA graphs on `device`, a GPU. From here on the calling thread computes in a stream of its own,
/// because CUDA's default one cannot be captured: call it before any tensor is on the device.
/// kFailedPrecondition if the program was built without CUDA.
absl::StatusOr<GraphFactory> CudaGraphs(at::Device device);

}  // namespace mtrun::trainers
