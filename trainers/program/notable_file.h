// notable.json of a run folder: the test images that its report page shows.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "datasets/packed/packed.h"
#include "nlohmann/json.hpp"
#include "trainers/step/notable_images.h"

namespace mtrun::trainers {

inline constexpr char kNotableFile[] = "notable.json";

/// Returns {"mistakes": [...], "uncertain": [...]} of images with image, label, guess and probability. If
/// `split` is given, each has a picture of at most datasets::kCellSide pixels a side, a PNG in base64,
/// unless its shard is not on this machine.
nlohmann::json NotableJson(const NotableImages& images, const datasets::PackedSplit* split);

/// Writes the file, or removes one of an earlier evaluation if there are no images.
absl::Status WriteNotable(const std::string& folder, const NotableImages& images,
                          const datasets::PackedSplit& split);

}  // namespace mtrun::trainers
