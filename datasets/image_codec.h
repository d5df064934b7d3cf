// JPEG and PNG to RGB bytes, and resizing: the only place that knows OpenCV. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::datasets {

struct ImageSize {
  int height = 0;
  int width = 0;
  bool operator==(const ImageSize&) const = default;
};
/// "32x48": height x width.
std::string SizeText(const ImageSize& size);
/// Reads "32x48" or "32" (square); kInvalidArgument beyond 1..65535.
absl::StatusOr<ImageSize> ParseImageSize(const std::string& text);

/// uint8 [height, width, 3], RGB, row-major.
struct RgbImage {
  ImageSize size;
  std::vector<uint8_t> pixels;
};

/// Decodes a whole JPEG or PNG file. Grey gets its channel repeated, transparency is dropped, 16 bits become
/// 8, an EXIF orientation is not applied (as in torchvision's ImageFolder). kInvalidArgument: not JPEG or
/// PNG; kDataLoss: truncated or damaged.
absl::StatusOr<RgbImage> DecodeImage(std::string_view file);

/// Stretches to `target`: area averaging where both sides shrink, else bilinear.
RgbImage ResizeImage(absl::Span<const uint8_t> pixels, const ImageSize& size, const ImageSize& target);

/// True when the marker that ends a JPEG is there: decoders fill a truncated one with grey and report
/// success.
bool JpegIsComplete(std::string_view file);

}  // namespace mtrun::datasets
