// Initialisation by normal numbers from a generator of our own. It is a pure function of (seed, parameter
// name), so that every rank makes the same weights without communication.
#pragma once

#include <cstdint>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::models {

/// Fills `tensor` in place with normal numbers (mean 0) of the stream (seed, "init/" + name).
void NormalInit(at::Tensor tensor, uint64_t seed, const std::string& name, double std);

/// Applies torch.nn.init.kaiming_normal_(mode="fan_out", nonlinearity="relu") to every convolution of
/// `module`: std = sqrt(2 / (output channels * kernel area)). He et al. 2015.
void KaimingNormalFanOut(torch::nn::Module& module, uint64_t seed);

/// Applies torch.nn.init.trunc_normal_(std), cut at +-2, to every linear layer of `module`. Biases become 0.
void TruncatedNormalLinear(torch::nn::Module& module, uint64_t seed, double std);

}  // namespace mtrun::models
