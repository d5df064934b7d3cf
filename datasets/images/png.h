// PNG files through libpng. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

bool IsPng(std::string_view file);
/// Reads only the header. Errors as for DecodePng.
absl::StatusOr<ImageSize> PngSize(std::string_view file);

/// Decodes the whole image. Grey is repeated over the channels, transparency is dropped (keeping the
/// colours), 16 bits are reduced to the upper 8, gamma and profiles are ignored. kDataLoss: truncated or
/// damaged; kInvalidArgument: not a PNG, or above the limits.
absl::StatusOr<RgbImage> DecodePng(std::string_view file, const DecodeLimits& limits = {});

/// Encodes with 8 bits per channel and zlib's default level.
std::string EncodePng(const RgbImage& image);

}  // namespace mtrun::datasets
