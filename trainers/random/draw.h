// Tensors of random numbers from a run's streams (random_stream.h): the same on any device, and with any
// number of threads.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

/// The stream's name as int64 [3] on `device`: what is drawn there can be part of a captured graph, to which
/// another stream's name is copied before it is replayed.
at::Tensor OnDevice(const RandomStream& stream, at::Device device);

/// float32 numbers of `shape` on the stream's device: word `first` of the stream makes the first one, and so
/// on. In [0, 1).
at::Tensor DrawUniform(at::IntArrayRef shape, const at::Tensor& stream, int64_t first = 0);
/// Standard normal. REQUIRES: `first` is even.
at::Tensor DrawNormal(at::IntArrayRef shape, const at::Tensor& stream, int64_t first = 0);
/// Whole numbers 0 .. below - 1, int64. REQUIRES: below <= 2^20.
at::Tensor DrawBelow(at::IntArrayRef shape, int64_t below, const at::Tensor& stream, int64_t first = 0);
/// 0 with probability `rate`, else 1 / (1 - rate).
at::Tensor DrawKept(at::IntArrayRef shape, double rate, const at::Tensor& stream, int64_t first = 0);

}  // namespace mtrun::trainers
