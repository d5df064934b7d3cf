// The two passes of antialiased bilinear resizing, in whole numbers: what they compute does not depend on the
// vectors of the processor. Internal to the room. Pure functions.
#pragma once

#include <cstdint>

namespace mtrun::datasets {

/// What one output position takes: source positions first .. first + count - 1, with weights from `at` on.
struct Taps {
  int first = 0, count = 0;
  int64_t at = 0;
};

/// Weights are fractions of 2^kWeightBits: 255 times their sum and the rounding fit into 31 bits.
constexpr int kWeightBits = 22;

/// Output pixels [count, 3] of a row of pixels, of which one byte behind the last one is read too.
void BlendColumns(const uint8_t* row, const Taps* taps, int count, const int32_t* weights, uint8_t* out);

/// `bytes` bytes, each of those below each other in `count` rows of so many bytes.
void BlendRows(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out);

/// The same without vectors of a certain processor: what the others are compared with.
void BlendColumnsAnywhere(const uint8_t* row, const Taps* taps, int count, const int32_t* weights,
                          uint8_t* out);
void BlendRowsAnywhere(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out);

}  // namespace mtrun::datasets
