// Sets a network's weights from files of any kind: safetensors, their index, .pth.
#pragma once

#include <set>
#include <string>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

/// Returns the tensors of a file: of torch.save, safetensors, or an index (.index.json) of files beside it.
/// The prefixes of wrappers come off if that gives more of the names in `wanted`. Errors name the file.
absl::StatusOr<NamedTensors> LoadWeights(const std::string& path, const std::set<std::string>& wanted);

/// Returns the names of the module's state.
std::set<std::string> NamesOf(const torch::nn::Module& module);

/// Copies a file's tensors into the model. Names and shapes must match exactly. Dtypes are converted.
/// num_batches_tracked can have the shape [1] or be missing, as in files from before PyTorch 0.4.1.
/// kInvalidArgument names the first tensors that are missing, unexpected or of another shape, or that have
/// NaN or, as parameters, an infinity; then nothing is copied. If `last_layer` ("fc.") is given and the
/// file's tensors of that prefix do not fit, the model keeps its own.
absl::Status CopyInto(const NamedTensors& file, const torch::nn::Module& module,
                      const std::string& last_layer = "");

/// Loads a file and copies it into the model. Errors begin with `flag`, the option that named the file, and
/// name the file.
absl::Status InitFrom(const std::string& path, const torch::nn::Module& module,
                      const std::string& flag = "--init_from", const std::string& last_layer = "");

}  // namespace mtrun::trainers
