// Tensors in and out of safetensors files, and a model's state dict by its PyTorch names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/safetensors.h"

namespace mtrun::trainers {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes a file beside `path` and renames it. Tensors of any device and layout; written contiguous.
absl::Status SaveTensors(const std::string& path, const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata);

/// All tensors of a file, on the CPU, in memory of their own. Errors name the file.
absl::StatusOr<NamedTensors> LoadTensors(const std::string& path);
/// The same from a file's bytes.
absl::StatusOr<NamedTensors> ParseTensors(std::string_view file);
/// What a file says of itself, with none of its tensors read. Errors name the file.
absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const std::string& path);
/// The dtype's name in safetensors files; nothing for those that they lack.
std::optional<datasets::DType> FileDType(at::ScalarType type);

/// Parameters, then buffers; detached aliases, so copying into them sets the model.
NamedTensors StateDict(const torch::nn::Module& module);

/// Copies the tensors of a safetensors or .pth file into the model; names and shapes must be exactly the
/// model's (dtypes are converted; num_batches_tracked may be missing, as in files from before PyTorch 0.4.1).
/// kInvalidArgument names the file and the first tensors that are missing, unexpected or of another shape;
/// then nothing was copied. Where `last_layer` ("fc.") is given and the file's tensors of that prefix do not
/// fit, the model keeps its own there.
absl::Status InitFrom(const std::string& path, const torch::nn::Module& module,
                      const std::string& last_layer = "");

/// Copies tensors by name; names and shapes must be exactly the same, else kInvalidArgument names the first
/// that are not, and nothing was copied.
absl::Status CopyTensors(const NamedTensors& from, const NamedTensors& to);

}  // namespace mtrun::trainers
