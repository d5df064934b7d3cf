// A part of a baseline JPEG, resized without making the pixels between: only the blocks of the part are
// transformed, and colours are resampled from their own resolution. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string_view>

#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Returns what resizing the result of DecodeJpegPart gives, but for rounding, in two thirds of the time.
/// nullopt: another kind of JPEG, damaged, above the limits, the box is not inside the image, or much is
/// shrunk on one side only. DecodeJpegPart takes these, or says why not.
std::optional<RgbImage> DecodeJpegCrop(std::string_view file, const ImageBox& box, const ImageSize& target,
                                       const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
