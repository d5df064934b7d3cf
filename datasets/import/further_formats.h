// Reads WebP, BMP and TIFF files through OpenCV, if the build has it. They can only be sources: packed sets
// never contain them. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Returns true in builds with OpenCV.
bool ReadsFurtherFormats();

/// Like DecodeImage, for all formats that this build reads.
absl::StatusOr<RgbImage> DecodeAnyImage(std::string_view file, const DecodeLimits& limits = {});
/// Like FindImageSize, for all formats that this build reads.
absl::StatusOr<ImageSize> FindAnyImageSize(std::string_view file);

}  // namespace mtrun::datasets
