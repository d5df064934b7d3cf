// The two passes of antialiased bilinear resizing, in integers, so that results do not depend on the
// processor's vector unit. Internal to this folder. Pure functions.
#pragma once

#include <cstdint>

namespace mtrun::datasets {

/// The inputs of one output position: source positions first .. first + count - 1, with weights from `at` on.
struct Taps {
  int first = 0, count = 0;
  int64_t at = 0;
};

/// Weights are fractions of 2^kWeightBits: 255 times their sum, plus rounding, fits into 31 bits.
constexpr int kWeightBits = 22;

/// Computes output pixels [count, 3] from a row of pixels. Reads one byte past the row's end.
void BlendColumns(const uint8_t* row, const Taps* taps, int count, const int32_t* weights, uint8_t* out);

/// Computes `bytes` bytes, each from the bytes at its position in `count` rows of `bytes` bytes.
void BlendRows(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out);

/// The portable implementations, used as reference for the others.
void BlendColumnsAnywhere(const uint8_t* row, const Taps* taps, int count, const int32_t* weights,
                          uint8_t* out);
void BlendRowsAnywhere(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out);

}  // namespace mtrun::datasets
