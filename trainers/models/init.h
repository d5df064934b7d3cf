// PyTorch's default initialisation of convolutions and linear layers from a generator of our own: a pure
// function of (seed, parameter name), so that every rank makes the same weights without talking.
#pragma once

#include <cstdint>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::models {

/// Fills `tensor` in place with uniform numbers in [-bound, bound) of the stream (seed, "init/" + name).
void UniformInit(at::Tensor tensor, uint64_t seed, const std::string& name, double bound);

/// Every weight and bias of convolutions and linear layers in `module`: uniform in +-1/sqrt(fan_in), which is
/// what PyTorch's kaiming_uniform_(a = sqrt(5)) and its bias rule come to. Other parameters and buffers are
/// left alone.
void DefaultInit(torch::nn::Module& module, uint64_t seed);

}  // namespace mtrun::models
