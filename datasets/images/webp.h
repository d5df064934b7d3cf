// WebP files through libwebp. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

bool IsWebp(std::string_view file);
/// Reads only the header. Errors as for DecodeWebp.
absl::StatusOr<ImageSize> WebpSize(std::string_view file);

/// Decodes the whole image; the first frame, on a black canvas, of an animated one. Transparency is dropped
/// (keeping the colours). kDataLoss: truncated or damaged; kInvalidArgument: not a WebP, or above the limits.
absl::StatusOr<RgbImage> DecodeWebp(std::string_view file, const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
