// Draws random numbers on a GPU with the code of philox.h, which is compiled for that GPU at the first draw.
// Builds without CUDA cannot draw on a device.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "trainers/random/philox.h"

namespace mtrun::trainers {

/// Draws plan.count numbers into `out`, float32 and contiguous, in the device's current stream. `stream`:
/// int64 [3] on the same device. Waits only for the compiler, at the first call. Throws c10::Error.
void DrawOnDevice(const at::Tensor& stream, const DrawPlan& plan, const at::Tensor& out);

/// Returns machine code for `architecture` ("sm_90"); needs no GPU. kFailedPrecondition if the program was
/// built without CUDA; kInternal has the compiler's message.
absl::StatusOr<std::string> CompileDrawKernel(const std::string& architecture);

}  // namespace mtrun::trainers
