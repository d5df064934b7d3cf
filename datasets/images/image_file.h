// Image files of all formats that can be sources: JPEG, PNG, WebP, BMP, TIFF, PBM, PGM and PPM. Packed sets hold
// only the first two. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

enum class ImageKind { kNone, kJpeg, kPng, kWebp, kBmp, kTiff, kNetpbm };

/// Detects the format by the first bytes, never by the name.
ImageKind FindImageKind(std::string_view file);

/// Decodes a whole JPEG or PNG file, as DecodeJpeg and DecodePng do. kInvalidArgument: another format
/// (named), or above the limits; kDataLoss: empty, truncated or damaged.
absl::StatusOr<RgbImage> DecodeImage(std::string_view file, const DecodeLimits& limits = {});
/// Decodes a whole file, as DecodeImage and the readers of the other formats do. Errors as for DecodeImage.
absl::StatusOr<RgbImage> DecodeAnyImage(std::string_view file, const DecodeLimits& limits = {});
/// Returns height and width from the header. Errors as for DecodeAnyImage, but the pixels are not checked.
absl::StatusOr<ImageSize> FindAnyImageSize(std::string_view file);

enum class DecodeMode {
  kExact,  // decodes every pixel; differs by at most 1 level from cropping and resizing with Pillow
  kFast,   // decodes a JPEG at the smallest sufficient scale in eighths, and only the box; about 0.3 levels
           // from kExact in the mean, more where detail is left out
};
/// Version of the pixels of kFast. If it differs between runs, one cannot continue the other unnoticed.
inline constexpr char kFastPixelsVersion[] = "2";
/// Returns `box` of the file's image, resized to `target` (ResizeBilinear). Errors as for DecodeImage; also
/// kInvalidArgument if the box is not inside the image.
absl::StatusOr<RgbImage> DecodeBox(std::string_view file, const ImageBox& box, const ImageSize& target,
                                   DecodeMode mode, const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
