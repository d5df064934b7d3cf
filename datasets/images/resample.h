// Resizing. Whole numbers throughout, so that every build and machine makes the same bytes. Pure functions;
// thread-safe.
#pragma once

#include <cstdint>

#include "datasets/images/image.h"

namespace mtrun::datasets {

/// Area averaging: output pixel (y, x) is the mean of the source over its own area, which pixels at the
/// border of it share in by what of them lies inside; exact, rounded half up. Where a side grows, pixels
/// repeat. REQUIRES: both sizes have pixels.
RgbImage AverageArea(const RgbImage& image, const ImageSize& target);

/// A rectangle of an image in units of 1/8 pixel, for images that were decoded at a scale of eighths.
struct EighthsBox {
  int64_t top = 0, left = 0, height = 0, width = 0;
};
/// The same box in eighths.
EighthsBox InEighths(const ImageBox& box);

/// Antialiased bilinear resizing of a part of an image: a triangle as wide as the scale spreads over the
/// source and never narrower than one pixel a side, columns first, rounded to bytes between the two passes.
/// It sees nothing outside of the box, as if the image had been cropped before. At most 1 level from Pillow's
/// BILINEAR (https://pillow.readthedocs.io/en/stable/handbook/concepts.html#filters), whose weights are
/// rounded from floating point. REQUIRES: the box lies inside and has pixels.
RgbImage ResizeBilinear(const RgbImage& image, const EighthsBox& box, const ImageSize& target);

/// Stretches to `target`: area averaging where both sides shrink, else bilinear.
RgbImage ResizeImage(const RgbImage& image, const ImageSize& target);

/// The size with this image's shape at a scale of over / under. Sides are rounded half up, to at least one
/// pixel. REQUIRES: both are positive, and a side times one of them fits.
ImageSize ScaledSize(const ImageSize& size, int64_t over, int64_t under);

/// The size with this image's shape whose shorter side is at most `short_side` and whose longer one at most
/// `max_side` (0: any); never larger than `size`. Rounded as ScaledSize does.
ImageSize FitInto(const ImageSize& size, int short_side, int max_side);

}  // namespace mtrun::datasets
