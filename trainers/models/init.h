// Initialisation of layers, from a generator of our own. It is a pure function of (seed, parameter name), so
// that every rank makes the same weights without communication.
#pragma once

#include <cstdint>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace mtrun::models {

/// Fills the weight and bias of a convolution or a linear layer with this name, as DefaultInit does.
void DefaultInitLayer(torch::nn::Module& layer, uint64_t seed, const std::string& name);

/// Fills every weight and bias of convolutions and linear layers in `module`, uniform in +-1/sqrt(fan_in).
/// This equals PyTorch's kaiming_uniform_(a = sqrt(5)) and its bias rule. Other tensors are unchanged.
void DefaultInit(torch::nn::Module& module, uint64_t seed);

/// Fills `tensor` in place with normal numbers (mean 0) of the stream (seed, "init/" + name).
void NormalInit(at::Tensor tensor, uint64_t seed, const std::string& name, double std);

/// Applies torch.nn.init.kaiming_normal_(mode="fan_out", nonlinearity="relu") to every convolution of
/// `module`: std = sqrt(2 / (output channels * kernel area)). He et al. 2015.
void KaimingNormalFanOut(torch::nn::Module& module, uint64_t seed);

/// Applies torch.nn.init.trunc_normal_(std), cut at +-2, to every linear layer of `module`. Biases become 0.
void TruncatedNormalLinear(torch::nn::Module& module, uint64_t seed, double std);

}  // namespace mtrun::models
