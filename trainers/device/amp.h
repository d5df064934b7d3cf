// Mixed precision: the dtype that a run computes in, and autocast for a scope, whose state is the thread's.
#pragma once

#include <string_view>

#include <torch/types.h>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// kFp32: no autocast. kFp16 also needs a GradScaler.
enum class Precision { kFp32, kBf16, kFp16 };

/// Parses "fp32", "bf16" or "fp16". fp16 is for CUDA only: kInvalidArgument on a CPU.
absl::StatusOr<Precision> ParsePrecision(std::string_view text, at::DeviceType device);

/// torch.autocast(device, dtype) as a scope: forward pass and loss belong inside, backward outside. Scopes
/// nest; the outermost one drops the cache of converted weights when it ends. kFp32 does nothing.
class Autocast {
 public:
  Autocast(at::DeviceType device, Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType device_;
  const bool active_;
  const bool was_enabled_;
  const at::ScalarType old_dtype_;
};

}  // namespace mtrun::trainers
