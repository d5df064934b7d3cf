// Netpbm files: PBM, PGM and PPM, plain and binary. Pure functions; thread-safe. Source of the format: the
// manuals pbm(5), pgm(5) and ppm(5) of Netpbm.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

bool IsNetpbm(std::string_view file);
/// Reads only the header. Errors as for DecodeNetpbm.
absl::StatusOr<ImageSize> NetpbmSize(std::string_view file);

/// Decodes the first image of a file. A sample v of at most `max` becomes v / max * 255, rounded to even, as
/// in Pillow; grey of more than 8 bits becomes the upper byte of v / max * 65535. kDataLoss: truncated or
/// damaged; kInvalidArgument: another format, or above the limits.
absl::StatusOr<RgbImage> DecodeNetpbm(std::string_view file, const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
