// CPU kernels for one image: 3x3 convolution, ReLU and 2x2 max-pooling in one pass, forward and backward.
// They are for networks so small that three general operations cost more than the arithmetic. Independent of
// LibTorch. Pure functions over memory; Real is float or double.
#pragma once

#include <cstdint>

namespace mtrun::models {

/// Input [channels, height, width], weight [filters, channels, 3, 3], no padding, stride 1, then pooled by 2.
/// If the convolution has an odd number of rows or columns, the last is left out. filters is a multiple of 4.
struct ConvShape {
  int channels = 0, height = 0, width = 0, filters = 0;
  int pooled_height() const { return (height - 2) / 2; }
  int pooled_width() const { return (width - 2) / 2; }
  int64_t input_numel() const { return int64_t{channels} * height * width; }
  int64_t output_numel() const { return int64_t{filters} * pooled_height() * pooled_width(); }
  int64_t weight_numel() const { return int64_t{filters} * channels * 9; }
};

/// Elements after an input image that the kernels may read (and multiply by zero).
inline constexpr int64_t kConvSlack = 16;
/// Winner of a pooled element that is not above zero, so that no gradient passes.
inline constexpr uint8_t kNoWinner = 4;

/// Returns false if the processor lacks the instructions that the kernels are compiled for.
bool ConvKernelsRunHere();

/// Packs weight as [filters/4][channels*9][4]: four filters side by side.
template <typename Real>
void PackWeight(const ConvShape& shape, const Real* weight, Real* packed);

/// Computes `output` [filters, pooled_height, pooled_width]. `winner` (same shape) is the row-major index of
/// the maximum among the four, the first if several are equal, as in PyTorch. NaN passes through.
template <typename Real>
void ConvReluPoolForward(const ConvShape& shape, const Real* input, const Real* packed, const Real* bias,
                         Real* output, uint8_t* winner);

/// Returns the elements of the scratch memory that the backward kernels share.
int64_t ConvScratchNumel(const ConvShape& shape);
/// Spreads `grad_output` to where the maxima were: fills `scratch`, adds to `grad_bias` [filters].
template <typename Real>
void SpreadGradient(const ConvShape& shape, const Real* grad_output, const uint8_t* winner, Real* scratch,
                    Real* grad_bias);
/// Adds to `grad_weight` (in the layout of weight) from `scratch` and the input.
template <typename Real>
void AddWeightGradient(const ConvShape& shape, const Real* input, const Real* scratch, Real* grad_weight);
/// Sets `grad_input`. REQUIRES: channels is a multiple of 4; `packed_transposed` is weight as
/// [channels/4][filters*9][4].
template <typename Real>
void InputGradient(const ConvShape& shape, const Real* scratch, const Real* packed_transposed,
                   Real* grad_input);
template <typename Real>
void PackWeightTransposed(const ConvShape& shape, const Real* weight, Real* packed);

}  // namespace mtrun::models
