// Initialisations by normal numbers from a generator of our own: a pure function of (seed, parameter name),
// so that every rank makes the same weights without talking.
#pragma once

#include <cstdint>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::models {

/// Fills `tensor` in place with normal numbers (mean 0) of the stream (seed, "init/" + name).
void NormalInit(at::Tensor tensor, uint64_t seed, const std::string& name, double std);

/// torch.nn.init.kaiming_normal_(mode="fan_out", nonlinearity="relu") for every convolution of `module`:
/// std = sqrt(2 / (output channels * kernel area)). He et al. 2015.
void KaimingNormalFanOut(torch::nn::Module& module, uint64_t seed);

/// torch.nn.init.trunc_normal_(std) for every linear layer of `module`, cut at +-2 as its defaults are;
/// biases become 0.
void TruncatedNormalLinear(torch::nn::Module& module, uint64_t seed, double std);

}  // namespace mtrun::models
