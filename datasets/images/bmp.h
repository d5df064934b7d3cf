// BMP files of Windows and OS/2. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

bool IsBmp(std::string_view file);
/// Reads only the header. Errors as for DecodeBmp.
absl::StatusOr<ImageSize> BmpSize(std::string_view file);

/// Decodes the whole image: palettes of 1, 2, 4 and 8 bits, RLE4 and RLE8, 16, 24 and 32 bits with any masks.
/// A colour of n bits is scaled by 255 / (2^n - 1), rounded down, as Pillow does. Alpha is dropped. Pixels
/// that RLE leaves out, or indexes outside the palette, have the first colour or black. kDataLoss: truncated
/// or damaged; kInvalidArgument: not a BMP, above the limits, or a kind that is not taken, which the message
/// names.
absl::StatusOr<RgbImage> DecodeBmp(std::string_view file, const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
