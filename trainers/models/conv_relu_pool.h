// A 3x3 convolution, ReLU and 2x2 max-pooling as one differentiable operation.
#pragma once

#include <ATen/core/Tensor.h>

namespace mtrun::models {

/// max_pool2d(relu(conv2d(input, weight, bias)), 2) and its gradient. On the CPU in float32 and float64 with
/// few channels by the kernels of conv_kernels.h (one thread), else by PyTorch's operations. input [n, C, H,
/// W], weight [F, C, 3, 3].
at::Tensor ConvReluPool(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace mtrun::models
