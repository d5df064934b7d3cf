// Reads weights from files that Python writes with torch.save (pth_layout.h). Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

/// Returns the state dict in a file's bytes: names and tensors in the file's order, on the CPU, contiguous,
/// in their own memory. Errors are those of ParsePthLayout.
absl::StatusOr<NamedTensors> ParsePth(absl::string_view file);

/// Calls ParsePth on a file. Errors name the file.
absl::StatusOr<NamedTensors> LoadPth(const std::string& path);

}  // namespace mtrun::trainers
