// A picture in memory and its size. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::datasets {

/// The longest side of any image that is read or made, in pixels (JPEG's own limit).
constexpr int kMaxImageSide = 65535;

struct ImageSize {
  int height = 0;
  int width = 0;
  int64_t pixels() const { return int64_t{height} * width; }
  bool operator==(const ImageSize&) const = default;
};
/// "32x48": height x width.
std::string SizeText(const ImageSize& size);
/// Reads "32x48" or "32" (square); kInvalidArgument beyond 1..kMaxImageSide.
absl::StatusOr<ImageSize> ParseImageSize(const std::string& text);

/// Whole pixels of an image: rows top .. top + height - 1, columns left .. left + width - 1.
struct ImageBox {
  int top = 0, left = 0, height = 0, width = 0;
  bool operator==(const ImageBox&) const = default;
};
/// True when the box has pixels and lies inside an image of `size`.
bool IsInside(const ImageBox& box, const ImageSize& size);
/// The box of `shape`'s proportions in the middle of `size`, as large as fits, sides rounded to pixels.
ImageBox CentredBox(const ImageSize& size, const ImageSize& shape);

/// uint8 [height, width, 3], RGB, row-major.
struct RgbImage {
  ImageSize size;
  std::vector<uint8_t> pixels;
  bool operator==(const RgbImage&) const = default;
};

/// Black.
RgbImage MakeImage(const ImageSize& size);
/// A copy of the box. REQUIRES: it lies inside.
RgbImage Crop(const RgbImage& image, const ImageBox& box);

/// What a decoder may spend on one image.
struct DecodeLimits {
  /// A file of few bytes may claim any size ("decompression bomb"): larger ones are refused before decoding.
  int64_t max_pixels = 100'000'000;
  /// Where the limit is from, for the sentence that refuses an image.
  std::string_view source = "--max_pixels";
};
/// kInvalidArgument names size and limit; kDataLoss for an image without pixels.
absl::Status CheckLimits(int64_t height, int64_t width, const DecodeLimits& limits);

}  // namespace mtrun::datasets
