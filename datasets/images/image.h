// An image in memory and its size. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::datasets {

/// Longest side of any image that is read or made, in pixels (JPEG's own limit).
constexpr int kMaxImageSide = 65535;

struct ImageSize {
  int height = 0;
  int width = 0;
  int64_t pixels() const { return int64_t{height} * width; }
  bool operator==(const ImageSize&) const = default;
};
/// Returns "32x48": height x width.
std::string SizeText(const ImageSize& size);
/// Parses "32x48" or "32" (square); kInvalidArgument if a side is outside of 1..kMaxImageSide.
absl::StatusOr<ImageSize> ParseImageSize(const std::string& text);

/// A rectangle of whole pixels: rows top .. top + height - 1, columns left .. left + width - 1.
struct ImageBox {
  int top = 0, left = 0, height = 0, width = 0;
  bool operator==(const ImageBox&) const = default;
};
/// Returns true if the box is not empty and is inside an image of `size`.
bool IsInside(const ImageBox& box, const ImageSize& size);
/// Returns the largest box in the middle of `size` with the aspect ratio of `shape`, sides rounded to pixels.
ImageBox CentredBox(const ImageSize& size, const ImageSize& shape);

/// Pixels are uint8 [height, width, 3], RGB, row-major.
struct RgbImage {
  ImageSize size;
  std::vector<uint8_t> pixels;
  bool operator==(const RgbImage&) const = default;
};

/// Returns a black image.
RgbImage MakeImage(const ImageSize& size);
/// Returns a copy of the box. REQUIRES: it is inside the image.
RgbImage Crop(const RgbImage& image, const ImageBox& box);

/// Limits of a decoder for one image.
struct DecodeLimits {
  /// A small file can claim any size ("decompression bomb"): larger ones are refused before decoding.
  int64_t max_pixels = 100'000'000;
  /// The origin of the limit, for the error message.
  std::string_view source = "--max_pixels";
};
/// kInvalidArgument: above the limit, with the size; kDataLoss: an image without pixels.
absl::Status CheckLimits(int64_t height, int64_t width, const DecodeLimits& limits);

}  // namespace mtrun::datasets
