// Colour jitter on bytes, one image at a time. Pure functions; free of LibTorch.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace mtrun::trainers {

/// By how much colours change either way, as torchvision's ColorJitter has it.
struct ColourJitter {
  double colours = 0;  // brightness, contrast and saturation: factors from max(0, 1 - colours) to 1 + colours
  double hue = 0;      // in turns of the colour circle, at most 0.5
  bool any() const { return colours > 0 || hue > 0; }
  bool operator==(const ColourJitter&) const = default;
};

/// Uniform numbers in [0, 1) that an image takes: the order of the four changes, then one for each.
inline constexpr int kJitterDraws = 5;

/// Changes `rgb` ([pixels, 3]) in place: brightness, contrast, saturation and hue in one of their 24 orders.
/// The first three are Pillow's ImageEnhance
/// (https://pillow.readthedocs.io/en/stable/reference/ImageEnhance.html): between the image and black, its
/// mean grey, its grey version, or beyond. REQUIRES: uniform.size() == kJitterDraws.
void JitterColours(const ColourJitter& jitter, absl::Span<const double> uniform, absl::Span<uint8_t> rgb);

}  // namespace mtrun::trainers
