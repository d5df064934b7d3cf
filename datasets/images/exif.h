// The orientation of the camera, as stored in image files (Exif 2.32, tag 274). Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Returns the orientation (1 to 8) in a file's first Exif block: the segment APP1 of JPEG, the chunk eXIf of
/// PNG or EXIF of WebP, the first directory of TIFF. Without one, the text "Raw profile type exif" of a PNG
/// counts, then XMP in a JPEG, PNG or WebP. 1 (upright) if none is valid.
int ExifOrientation(std::string_view file);

/// Returns the size of an image of `size` after Upright.
ImageSize UprightSize(const ImageSize& size, int orientation);
/// Returns the image turned and mirrored according to `orientation` (1 to 8).
RgbImage Upright(const RgbImage& image, int orientation);

}  // namespace mtrun::datasets
