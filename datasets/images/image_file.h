// Image files of any kind that is read. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

enum class ImageKind { kNone, kJpeg, kPng, kWebp, kBmp, kTiff, kGif, kHeif };

/// By the first bytes, never by the name.
ImageKind FindImageKind(std::string_view file);
/// "JPEG", "PNG", "WebP", ...
const char* ImageKindName(ImageKind kind);

/// Decodes a whole JPEG or PNG file, as DecodeJpeg and DecodePng say. kInvalidArgument: another kind (named),
/// or beyond the limits; kDataLoss: empty, truncated or damaged.
absl::StatusOr<RgbImage> DecodeImage(std::string_view file, const DecodeLimits& limits = {});
/// Height and width from the header. Errors as DecodeImage, without looking at the pixels.
absl::StatusOr<ImageSize> FindImageSize(std::string_view file);

enum class DecodeMode {
  kExact,  // every pixel is decoded; at most 1 level from cropping and resizing with Pillow
  kFast,   // a JPEG at the smallest scale of eighths that is large enough, and the box's rows alone
};
/// `box` of the file's image, resized to `target` (ResizeBilinear). kInvalidArgument besides: the box is not
/// inside.
absl::StatusOr<RgbImage> DecodeBox(std::string_view file, const ImageBox& box, const ImageSize& target,
                                   DecodeMode mode, const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
