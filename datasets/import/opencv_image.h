// Decodes the kinds of WebP and BMP that OpenCV reads exactly, if the build has it. Pure functions;
// thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Returns true for a still WebP and a BMP of 24 bits, in builds with OpenCV. False for files that end early:
/// OpenCV would print its own words about them.
bool IsForOpenCv(std::string_view file);

/// Decodes a whole file. REQUIRES: IsForOpenCv(file). Any failure is kDataLoss, for another reader to name.
absl::StatusOr<RgbImage> DecodeByOpenCv(std::string_view file, const DecodeLimits& limits);

/// Decodes a source's file: DecodeByOpenCv if it can, otherwise DecodeAnyImage, whose errors it returns.
absl::StatusOr<RgbImage> DecodeSourceImage(std::string_view file, const DecodeLimits& limits = {});

}  // namespace mtrun::datasets
