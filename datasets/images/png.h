// PNG files through libpng. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

bool IsPng(std::string_view file);
/// From the header alone. Errors as DecodePng.
absl::StatusOr<ImageSize> PngSize(std::string_view file);

/// The whole image. Grey is repeated over the channels, transparency is dropped (the colours below it are
/// shown), of 16 bits the upper 8 are taken, gamma and profiles are passed over. kDataLoss: truncated or
/// damaged; kInvalidArgument: no PNG, or beyond the limits.
absl::StatusOr<RgbImage> DecodePng(std::string_view file, const DecodeLimits& limits = {});

/// 8 bits a channel, zlib's default effort.
std::string EncodePng(const RgbImage& image);

}  // namespace mtrun::datasets
