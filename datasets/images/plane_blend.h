// The two passes of resizing the planes of a JPEG (brightness Y, colours Cb and Cr), in integers of 16 bits,
// so that results do not depend on the processor's vector unit. Internal to this folder. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mtrun::datasets {

/// Vectors have this many numbers; arrays of them are padded to a multiple.
constexpr int kLanes = 16;
constexpr int RoundUpToLanes(int count) { return (count + kLanes - 1) / kLanes * kLanes; }

/// Lines of bytes to be blended into one, each `stride` after the one before.
struct Lines {
  const uint8_t* first = nullptr;
  ptrdiff_t stride = 0;
  const int16_t* weights = nullptr;  // add up to 2^kShortWeightBits
  int count = 0;                     // at most kMostLines
};
constexpr int kMostLines = 64;

/// Computes `bytes` bytes, a multiple of kLanes.
void BlendLines(const Lines& lines, int bytes, uint8_t* out);
/// Computes `pixels` pixels of RGB from lines of Y, Cb and Cr, which are padded to a multiple of kLanes.
void BlendToRgb(const std::array<Lines, 3>& lines, int pixels, uint8_t* out);

/// The portable implementations, used as reference for the others.
void BlendLinesAnywhere(const Lines& lines, int bytes, uint8_t* out);
void BlendToRgbAnywhere(const std::array<Lines, 3>& lines, int pixels, uint8_t* out);

/// Writes kLanes columns as `count` rows, a multiple of kLanes. Column x is at columns + x * from_stride, row
/// y at rows + y * to_stride.
void TransposeLanes(const uint8_t* columns, ptrdiff_t from_stride, int count, uint8_t* rows,
                    ptrdiff_t to_stride);

}  // namespace mtrun::datasets
