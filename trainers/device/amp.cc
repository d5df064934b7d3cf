#include "trainers/device/amp.h"

#include <string>

#include <ATen/autocast_mode.h>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {

absl::StatusOr<Precision> ParsePrecision(std::string_view text, at::DeviceType device) {
  if (text == "fp32") return Precision::kFp32;
  if (text == "bf16") return Precision::kBf16;
  if (text != "fp16") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown precision \"", std::string(text), "\": fp32, bf16 or fp16"));
  }
  if (device == at::kCPU) {
    return absl::InvalidArgumentError("precision fp16 needs a CUDA device; on a CPU use bf16 or fp32");
  }
  return Precision::kFp16;
}

Autocast::Autocast(at::DeviceType device, Precision precision)
    : device_(device),
      active_(precision != Precision::kFp32),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      old_dtype_(at::autocast::get_autocast_dtype(device)) {
  if (!active_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, old_dtype_);
}

}  // namespace mtrun::trainers
