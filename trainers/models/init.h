// PyTorch's default initialisation of convolutions and linear layers, from a generator of our own. It is a
// pure function of (seed, parameter name), so that every rank makes the same weights without communication.
#pragma once

#include <cstdint>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::models {

/// Fills `tensor` in place with uniform numbers in [-bound, bound) of the stream (seed, "init/" + name).
void UniformInit(at::Tensor tensor, uint64_t seed, const std::string& name, double bound);

/// Fills the weight and bias of a convolution or a linear layer with this name, as DefaultInit does.
void DefaultInitLayer(torch::nn::Module& layer, uint64_t seed, const std::string& name);

/// Fills every weight and bias of convolutions and linear layers in `module`, uniform in +-1/sqrt(fan_in).
/// This equals PyTorch's kaiming_uniform_(a = sqrt(5)) and its bias rule. Other tensors are unchanged.
void DefaultInit(torch::nn::Module& module, uint64_t seed);

}  // namespace mtrun::models
