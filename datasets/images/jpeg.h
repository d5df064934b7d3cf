// JPEG files through libjpeg-turbo, with its accurate integer transform and smooth chroma, so that all
// machines produce the same pixels. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

bool IsJpeg(std::string_view file);
/// Returns true if the JPEG has its end marker: decoders fill truncated files with grey and report success.
bool JpegIsComplete(std::string_view file);
/// Reads only the header. Errors as for DecodeJpeg.
absl::StatusOr<ImageSize> JpegSize(std::string_view file);

/// Decodes the whole image. Grey is repeated over the channels; CMYK, stored inverted with and without
/// Adobe's marker, becomes RGB by R = (255 - C) (255 - K) / 255; an EXIF orientation is not applied.
/// kDataLoss: truncated or damaged; kInvalidArgument: not a JPEG, above the limits, or more than 500 scans.
absl::StatusOr<RgbImage> DecodeJpeg(std::string_view file, const DecodeLimits& limits = {});

/// Returns the smallest of 1, 2, 4 and 8 eighths at which `box` is at least as large as `at_least`: the
/// scales with fast transforms.
int SufficientEighths(const ImageBox& box, const ImageSize& at_least);

/// A part of a JPEG at a fraction of its size.
struct JpegPart {
  RgbImage image;
  int eighths = 8;        // 8, 4, 2 or 1: a pixel here covers 8 / eighths pixels per side of the file's image
  int top = 0, left = 0;  // position of `image` in the whole image at that scale
};
/// Decodes at least the pixels of `box`, at the smallest scale at which the box is not smaller than
/// `at_least`. Skips frequencies that the result cannot show, and rows above and below. A JPEG of sampling
/// 4x2 or 2x4 is decoded whole, at full scale. Errors as for DecodeJpeg; also kInvalidArgument if the box is
/// not inside the image. REQUIRES: box.height, box.width > 0.
absl::StatusOr<JpegPart> DecodeJpegPart(std::string_view file, const ImageBox& box, const ImageSize& at_least,
                                        const DecodeLimits& limits = {});

/// Encodes a baseline JPEG: half-resolution chroma, optimized Huffman tables. REQUIRES: 1 <= quality <= 100.
std::string EncodeJpeg(const RgbImage& image, int quality);

}  // namespace mtrun::datasets
