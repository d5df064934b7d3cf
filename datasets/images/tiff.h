// TIFF files through libtiff. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Returns true for TIFF and BigTIFF.
bool IsTiff(std::string_view file);
/// Reads only the first directory. Errors as for DecodeTiff.
absl::StatusOr<ImageSize> TiffSize(std::string_view file);

/// Decodes the whole first image, in strips or tiles, its samples together or in planes: grey and palettes of
/// 1, 2, 4 and 8 bits, grey of 16 (0 is black), RGB and CMYK of 8 and 16, YCbCr of 8. Grey is repeated over
/// the channels; CMYK becomes RGB as for DecodeJpeg; 16 bits are reduced to the upper 8. Alpha is dropped,
/// keeping the colours; colours that were multiplied by it are divided by it, rounded down, as Pillow does.
/// The tag of the orientation is not applied. kDataLoss: truncated or damaged; kInvalidArgument: not a TIFF,
/// above the limits, or a kind that is not taken, which the message names.
absl::StatusOr<RgbImage> DecodeTiff(std::string_view file, const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
