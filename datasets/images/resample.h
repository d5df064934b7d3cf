// Resizing in integers, so that every build and machine produces the same bytes. Pure functions; thread-safe.
#pragma once

#include <cstdint>

#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Area averaging: output pixel (y, x) is the mean of the source over its own area. Pixels at the border
/// contribute in proportion to their part inside; the result is exact, rounded half up. Pixels repeat if a
/// side grows. REQUIRES: both sizes have pixels.
RgbImage AverageArea(const RgbImage& image, const ImageSize& target);

/// A rectangle of an image in units of 1/8 pixel, for images decoded at a scale in eighths.
struct EighthsBox {
  int64_t top = 0, left = 0, height = 0, width = 0;
};
/// Converts a box to eighths.
EighthsBox InEighths(const ImageBox& box);

/// Antialiased bilinear resizing of a part of an image, as if it had been cropped before. Uses a triangle
/// filter as wide as the scale, but at least one pixel per side: columns first, rounded to bytes between the
/// two passes. Differs by at most 1 level from Pillow's BILINEAR
/// (https://pillow.readthedocs.io/en/stable/handbook/concepts.html#filters), whose weights are rounded from
/// floating point. REQUIRES: the box is inside the image and has pixels.
RgbImage ResizeBilinear(const RgbImage& image, const EighthsBox& box, const ImageSize& target);

/// Stretches to `target`: area averaging if both sides shrink, otherwise bilinear.
RgbImage ResizeImage(const RgbImage& image, const ImageSize& target);

/// Returns the size scaled by over / under. Sides are rounded half up, to at least one pixel. REQUIRES: both
/// are positive, and the product of a side and one of them does not overflow.
ImageSize ScaledSize(const ImageSize& size, int64_t over, int64_t under);

/// Returns the size with the same aspect ratio whose shorter side is at most `short_side` and whose longer
/// one is at most `max_side` (0: no limit); never larger than `size`. Rounds like ScaledSize.
ImageSize FitInto(const ImageSize& size, int short_side, int max_side);

}  // namespace mtrun::datasets
