// Which way up a camera was held, as its files say (Exif 2.32, tag 274). Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "datasets/images/image.h"

namespace mtrun::datasets {

/// 1 to 8 of a JPEG's or PNG's first Exif block; 1 (upright) where there is none or it makes no sense.
int ExifOrientation(std::string_view file);

/// The image as it is to be shown: turned and mirrored as `orientation` (1 to 8) says.
RgbImage Upright(const RgbImage& image, int orientation);

}  // namespace mtrun::datasets
