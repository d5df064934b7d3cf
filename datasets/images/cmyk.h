// Printing inks as light. Pure.
#pragma once

#include <cstdint>

namespace mtrun::datasets {

/// Converts a pixel of cyan, magenta, yellow and black, in amounts of light (255 - ink), to RGB:
/// round(light * black / 255), as Pillow does.
inline void LightOfInks(const uint8_t* light, uint8_t* rgb) {
  for (int c = 0; c < 3; ++c) rgb[c] = static_cast<uint8_t>((2 * light[c] * light[3] + 255) / 510);
}

}  // namespace mtrun::datasets
