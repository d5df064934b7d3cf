// The file of --weights, which resnet and resnet18 have.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/settings.h"

namespace mtrun::trainers {

/// The value of --weights that stands for torchvision's weights of ImageNet, in PyTorch's cache.
inline constexpr char kImageNetWeights[] = "imagenet";

/// Returns the number of layers that --depth gives; 18 for resnet18, which has no such flag.
int DepthOf(const Settings& settings);

/// Returns the path that --weights means, "" without it. kNotFound: kImageNetWeights, and the cache does not
/// have the file; the message says how to get it.
absl::StatusOr<std::string> StartingWeights(const Settings& settings);

}  // namespace mtrun::trainers
