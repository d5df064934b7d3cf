// How images are normalised where --normalize says auto: as those were that the weights were trained with
// which the run starts from.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/settings.h"
#include "trainers/checkpoints/run_state.h"

namespace mtrun::trainers {

struct TrainedPixels {
  std::string normalize = "half";  // or "imagenet"
  bool known = false;              // else nobody knows, and it is "half"
  std::string why;                 // "its last layer has ImageNet's 1000 classes"
};

/// What a file of weights tells of itself, or its last layer does ("fc.weight"). Errors name the file.
absl::StatusOr<TrainedPixels> PixelsOf(const std::string& weights, const std::string& last_layer);

/// Puts "half" or "imagenet" into the table where `normalize` is auto: what `continued`, the checkpoint that
/// the run goes on from, has; else what fits --weights; without them "half". Says which where there are
/// weights, and warns of a choice that does not fit them, when `first`.
absl::Status ResolveNormalize(const checkpoints::Identity& continued, bool first, Settings& settings);

}  // namespace mtrun::trainers
