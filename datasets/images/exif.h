// The orientation of the camera, as stored in image files (Exif 2.32, tag 274). Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Returns the orientation (1 to 8) in a JPEG's or PNG's first Exif block; 1 (upright) if none is valid.
int ExifOrientation(std::string_view file);

/// Returns the image turned and mirrored according to `orientation` (1 to 8).
RgbImage Upright(const RgbImage& image, int orientation);

}  // namespace mtrun::datasets
