// JPEG files through libjpeg-turbo, with its accurate integer transform and smooth chroma: the same pixels on
// every machine. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

bool IsJpeg(std::string_view file);
/// True when the marker that ends a JPEG is there: decoders fill a truncated one with grey and report
/// success.
bool JpegIsComplete(std::string_view file);
/// From the header alone. Errors as DecodeJpeg.
absl::StatusOr<ImageSize> JpegSize(std::string_view file);

/// The whole image. Grey is repeated over the channels, CMYK (also Adobe's inverted one) becomes RGB by
/// R = (255 - C) (255 - K) / 255, an EXIF orientation is not applied. kDataLoss: truncated or damaged;
/// kInvalidArgument: no JPEG, beyond the limits, or more than 500 scans.
absl::StatusOr<RgbImage> DecodeJpeg(std::string_view file, const DecodeLimits& limits = {});

/// Some pixels of a JPEG at a fraction of its size.
struct JpegPart {
  RgbImage image;
  int eighths = 8;        // 8, 4, 2 or 1: a pixel here shows 8 / eighths pixels a side of the file's image
  int top = 0, left = 0;  // of `image` in the whole image at that scale
};
/// Decodes at least the pixels of `box`, at the smallest scale that leaves the box as large as `at_least`:
/// frequencies that the result cannot show are not transformed, rows above and below not at all.
/// REQUIRES: box.height, box.width > 0. Errors as DecodeJpeg, besides kInvalidArgument for a box that is not
/// inside.
absl::StatusOr<JpegPart> DecodeJpegPart(std::string_view file, const ImageBox& box, const ImageSize& at_least,
                                        const DecodeLimits& limits = {});

/// Baseline JPEG with chroma of half the resolution and Huffman tables made for the image. REQUIRES:
/// 1 <= quality <= 100.
std::string EncodeJpeg(const RgbImage& image, int quality);

}  // namespace mtrun::datasets
