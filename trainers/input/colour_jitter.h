// Colour jitter on the bytes of one image. Pure functions, independent of LibTorch.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace mtrun::trainers {

/// Ranges of colour changes, as in torchvision's ColorJitter.
struct ColourJitter {
  double colours = 0;  // brightness, contrast and saturation: factors from max(0, 1 - colours) to 1 + colours
  double hue = 0;      // in turns of the colour circle, at most 0.5
  bool any() const { return colours > 0 || hue > 0; }
  bool operator==(const ColourJitter&) const = default;
};

/// Uniform numbers in [0, 1) for each image: one for the order of the four changes, then one for each change.
inline constexpr int kJitterDraws = 5;

/// Changes brightness, contrast, saturation and hue of `rgb` ([pixels, 3]) in place, in one of 24 orders. The
/// first three are those of Pillow's ImageEnhance
/// (https://pillow.readthedocs.io/en/stable/reference/ImageEnhance.html): between the image and black, its
/// mean grey, its grey version, or beyond. REQUIRES: uniform.size() == kJitterDraws.
void JitterColours(const ColourJitter& jitter, absl::Span<const double> uniform, absl::Span<uint8_t> rgb);

}  // namespace mtrun::trainers
