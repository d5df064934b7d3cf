// Random numbers that are drawn on a GPU, by the code of philox.h, which is compiled for that GPU when the
// first ones are drawn. In builds without CUDA there is no device to draw on.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "trainers/random/philox.h"

namespace mtrun::trainers {

/// plan.count numbers into `out`, float32 and contiguous, in the device's current stream. `stream`: int64 [3]
/// on the same device. Waits for nothing, but for the compiler at the first call. Throws c10::Error.
void DrawOnDevice(const at::Tensor& stream, const DrawPlan& plan, const at::Tensor& out);

/// Machine code for `architecture` ("sm_90"); needs no GPU. kFailedPrecondition without CUDA, kInternal with
/// what the compiler says.
absl::StatusOr<std::string> CompileDrawKernel(const std::string& architecture);

}  // namespace mtrun::trainers
