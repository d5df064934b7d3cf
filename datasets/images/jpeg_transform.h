// Inverse cosine transforms of JPEG blocks, at full size and reduced, with the bits of libjpeg's accurate
// integer ones (jidctint.c, jidctred.c). Internal to this folder. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtrun::datasets {

/// Transforms 64 coefficients (row-major) times `quantizers` into `eighths` columns of as many bytes. Column
/// x is at out + x * stride: the samples of a plane are stored column after column. REQUIRES: `eighths` is 1,
/// 2, 4 or 8.
void InverseTransform(const int16_t* coefficients, const uint16_t* quantizers, int eighths, uint8_t* out,
                      ptrdiff_t stride);
/// The same for a block whose only coefficient is the first.
void InverseTransformFlat(int16_t coefficient, uint16_t quantizer, int eighths, uint8_t* out,
                          ptrdiff_t stride);
/// The portable implementation, used as reference for the other.
void InverseTransformAnywhere(const int16_t* coefficients, const uint16_t* quantizers, int eighths,
                              uint8_t* out, ptrdiff_t stride);

}  // namespace mtrun::datasets
