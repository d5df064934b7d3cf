// Weights from the files that Python writes with torch.save (pth_layout.h). Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

/// The state dict in a file's bytes: names and tensors in the file's order, on the CPU, contiguous, in memory
/// of their own. Errors are those of ParsePthLayout.
absl::StatusOr<NamedTensors> ParsePth(absl::string_view file);

/// ParsePth of a file; errors name it.
absl::StatusOr<NamedTensors> LoadPth(const std::string& path);

/// LoadPth or LoadTensors (safetensors), by what the file begins with.
absl::StatusOr<NamedTensors> LoadWeights(const std::string& path);

}  // namespace mtrun::trainers
