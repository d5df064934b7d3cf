// WebP, BMP and TIFF files through OpenCV, in builds that have it: for sources alone, packed sets hold none
// of them. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// True in builds with OpenCV.
bool ReadsFurtherFormats();

/// As DecodeImage, for all files that this build reads.
absl::StatusOr<RgbImage> DecodeAnyImage(std::string_view file, const DecodeLimits& limits = {});
/// As FindImageSize, for all files that this build reads.
absl::StatusOr<ImageSize> FindAnyImageSize(std::string_view file);

}  // namespace mtrun::datasets
