// Reads weights from the files that Python writes with torch.save: the zip format and, for files from before
// PyTorch 1.6, the older one (torchvision's early weights). A file holds tensors in plain containers, or it
// is refused; nothing in it is executed. Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/engine/safetensors.h"

namespace mtrun::engine {

/// The state dict in a file's bytes: names and tensors in the file's order, on the CPU, contiguous, in memory
/// of their own. It is the dictionary that was saved, or within a checkpoint the first of its entries
/// state_dict, model_state_dict, model, net. A common prefix "module." (torch's DistributedDataParallel) is
/// taken off. kDataLoss: broken; kPermissionDenied: holds more than data; kInvalidArgument: no state dict, or
/// tensors of a kind that weights do not come in.
absl::StatusOr<NamedTensors> ParsePth(absl::string_view file);

/// ParsePth of a file; errors name it.
absl::StatusOr<NamedTensors> LoadPth(const std::string& path);

/// LoadPth or LoadTensors (safetensors), by what the file begins with.
absl::StatusOr<NamedTensors> LoadWeights(const std::string& path);

}  // namespace mtrun::engine
