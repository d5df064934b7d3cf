// Weights that torchvision publishes for the networks trained here, and where PyTorch keeps them. Pure,
// except for FindOnDisk.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun {

/// A file of weights trained on ImageNet; those that `weights="DEFAULT"` of torchvision 0.26 names.
struct PublishedWeights {
  std::string_view network;  // "resnet50"
  std::string_view file;     // "resnet50-11ad3fa6.pth"

  /// Returns the digits that the file's SHA-256 begins with, as torch.hub checks them: they end its name.
  std::string Digits() const;
};

/// kNotFound lists the networks.
absl::StatusOr<PublishedWeights> FindPublished(std::string_view network);

/// The folder of such files on their server.
inline constexpr char kPublishedUrl[] = "https://download.pytorch.org/models";

/// Returns the folder in which torch.hub keeps such files: `hub/checkpoints` of $TORCH_HOME, else of `torch`
/// in $XDG_CACHE_HOME, else in ~/.cache.
std::string HubFolder(const EnvironmentMap& environment);

/// Returns the path of the file in the hub's folder. kNotFound says where it comes from and where it belongs.
absl::StatusOr<std::string> FindOnDisk(const PublishedWeights& weights, const EnvironmentMap& environment);

}  // namespace mtrun
