// The two passes of antialiased bilinear resizing, in integers, so that results do not depend on the
// processor's vector unit. Internal to this folder. Pure functions.
#pragma once

#include <cstdint>

#include "datasets/images/triangle_kernel.h"

namespace mtrun::datasets {

/// Computes output pixels [count, 3] from a row of pixels. Reads one byte past the row's end.
void BlendColumns(const uint8_t* row, const Taps* taps, int count, const int32_t* weights, uint8_t* out);

/// Computes `bytes` bytes, each from the bytes at its position in `count` rows of `bytes` bytes.
void BlendRows(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out);

/// The portable implementations, used as reference for the others.
void BlendColumnsAnywhere(const uint8_t* row, const Taps* taps, int count, const int32_t* weights,
                          uint8_t* out);
void BlendRowsAnywhere(const uint8_t* rows, int64_t bytes, int count, const int32_t* weights, uint8_t* out);

}  // namespace mtrun::datasets
