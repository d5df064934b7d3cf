// Parses files that Python writes with torch.save: the zip format, the one from before PyTorch 1.6, and the
// tar format from before 0.1.12 (torchvision's early weights). Nothing in a file is executed. The input can
// be arbitrary bytes. Independent of LibTorch. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/weights/stored_tensor.h"

namespace mtrun::trainers {

/// First bytes of a file that LooksLikePth needs.
inline constexpr size_t kPthStartBytes = 512;

/// Returns whether a file begins like one of torch.save.
bool LooksLikePth(absl::string_view file);

/// Returns the state dict in a file's bytes (ReadStateDict). kInvalidArgument also for a file that torch.save
/// did not write, or a TorchScript program.
absl::StatusOr<std::vector<StoredTensor>> ParsePthLayout(absl::string_view file);

}  // namespace mtrun::trainers
