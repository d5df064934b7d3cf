// Tensors in and out of safetensors files, and a model's state dict by its PyTorch names.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun::engine {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes a file beside `path` and renames it. Tensors of any device and layout; written contiguous.
absl::Status SaveTensors(const std::string& path, const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata);

/// All tensors of a file, on the CPU, in memory of their own. Errors name the file.
absl::StatusOr<NamedTensors> LoadTensors(const std::string& path);

/// Parameters, then buffers; detached aliases, so copying into them sets the model.
NamedTensors StateDict(const torch::nn::Module& module);

/// Copies a file's tensors into the model; names and shapes must be exactly the model's (dtypes are
/// converted). kInvalidArgument names the file and the first tensors that are missing, unexpected or of
/// another shape; then nothing was copied.
absl::Status InitFrom(const std::string& path, const torch::nn::Module& module);

}  // namespace mtrun::engine
