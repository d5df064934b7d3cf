// Parses the format of torch.save from before PyTorch 0.1.12: a tar archive of the entries storages, tensors
// and pickle. The input can be arbitrary bytes. Independent of LibTorch. Pure functions.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/weights/stored_tensor.h"

namespace mtrun::trainers {

/// Returns whether a file begins like a tar archive.
bool LooksLikeTar(absl::string_view file);

/// Returns the state dict in a file's bytes (ReadStateDict). kInvalidArgument: torch.save did not write it.
absl::StatusOr<std::vector<StoredTensor>> ParseTarLayout(absl::string_view file);

}  // namespace mtrun::trainers
