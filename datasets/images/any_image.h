// Image files of all formats that can be sources: JPEG, PNG, WebP, BMP, TIFF, PBM, PGM and PPM. Packed sets
// hold only the first two. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Decodes a whole file, as DecodeImage and the readers of the other formats do. Errors as for DecodeImage.
absl::StatusOr<RgbImage> DecodeAnyImage(std::string_view file, const DecodeLimits& limits = {});
/// Returns height and width from the header. Errors as for DecodeAnyImage, but the pixels are not checked.
absl::StatusOr<ImageSize> FindAnyImageSize(std::string_view file);

}  // namespace mtrun::datasets
