// A 3x3 convolution, ReLU and 2x2 max-pooling as one differentiable operation.
#pragma once

#include <ATen/core/Tensor.h>

namespace mtrun::models {

/// Returns max_pool2d(relu(conv2d(input, weight, bias)), 2), which is differentiable. With few channels, the
/// CPU uses the kernels of conv_kernels.h (one thread) for float32 and float64. Otherwise PyTorch's
/// operations are used. input [n, C, H, W], weight [F, C, 3, 3].
at::Tensor ConvReluPool(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace mtrun::models
