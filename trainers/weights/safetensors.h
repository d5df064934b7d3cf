// Reads and writes tensors in safetensors files, and lists a model's state dict by its PyTorch names.
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
#include "datasets/packed/safetensors.h"

namespace mtrun::trainers {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Adds the entry that transformers and accelerate require of a file of PyTorch's tensors.
std::map<std::string, std::string> OfPyTorch(std::map<std::string, std::string> metadata);

/// Writes a file beside `path` and renames it. Tensors of any device and layout are written contiguous, and
/// the metadata are marked as OfPyTorch.
absl::Status SaveTensors(const std::string& path, const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata);

/// Returns all tensors of a file, on the CPU, in their own memory. Errors name the file.
absl::StatusOr<NamedTensors> LoadTensors(const std::string& path);
/// Does the same for a file's bytes.
absl::StatusOr<NamedTensors> ParseTensors(std::string_view file);
/// Returns a file's metadata without reading its tensors. Errors name the file.
absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const std::string& path);
/// Makes bools 0 or 1, because any other value is undefined in C++. Returns other tensors as they are.
at::Tensor CleanBools(const at::Tensor& tensor);
/// Returns the type of tensors with this dtype in a file.
at::ScalarType TorchType(datasets::DType type);
/// Returns the dtype's name in safetensors files, or nullopt if they lack it.
std::optional<datasets::DType> FileDType(at::ScalarType type);

/// Returns parameters, then buffers, as detached aliases: copying into them sets the model.
NamedTensors StateDict(const torch::nn::Module& module);

/// Copies tensors by name. Names and shapes must match exactly. If they do not, kInvalidArgument names the
/// first that differ, and nothing is copied.
absl::Status CopyTensors(const NamedTensors& from, const NamedTensors& to);

}  // namespace mtrun::trainers
