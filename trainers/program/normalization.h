// Resolves --normalize auto: images are normalised as in the training of the run's first weights.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/settings.h"
#include "trainers/checkpoints/run_state.h"

namespace mtrun::trainers {

struct TrainedPixels {
  std::string normalize = "half";  // or "imagenet"
  bool known = false;              // false: unknown, so `normalize` is "half"
  std::string why;                 // such as "its last layer has ImageNet's 1000 classes"
};

/// Returns what a weights file records, or what its last layer ("fc.weight") implies. Errors name the file.
absl::StatusOr<TrainedPixels> PixelsOf(const std::string& weights, const std::string& last_layer);

/// Replaces an auto `normalize` in the table by "half" or "imagenet". It takes the value of `continued` (the
/// checkpoint that the run continues from), else the value that fits --weights, else "half". If `first`, logs
/// the choice for --weights, or warns if a given value does not fit them.
absl::Status ResolveNormalize(const checkpoints::Identity& continued, bool first, Settings& settings);

}  // namespace mtrun::trainers
