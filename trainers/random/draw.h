// Draws tensors of random numbers from a run's streams (random_stream.h): the same on any device, and with
// any number of threads.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

/// Returns the stream's name as int64 [3] on `device`. If draws from it are captured in a graph, another
/// stream's name can be copied into it before a replay.
at::Tensor OnDevice(const RandomStream& stream, at::Device device);

/// Draws float32 numbers in [0, 1) of `shape` on the stream's device, from word `first` of the stream on.
at::Tensor DrawUniform(at::IntArrayRef shape, const at::Tensor& stream, int64_t first = 0);
/// Draws standard normal numbers. REQUIRES: `first` is even.
at::Tensor DrawNormal(at::IntArrayRef shape, const at::Tensor& stream, int64_t first = 0);
/// Draws whole numbers 0 .. below - 1, int64. REQUIRES: below <= 2^20.
at::Tensor DrawBelow(at::IntArrayRef shape, int64_t below, const at::Tensor& stream, int64_t first = 0);
/// Draws 0 with probability `rate`, otherwise 1 / (1 - rate).
at::Tensor DrawKept(at::IntArrayRef shape, double rate, const at::Tensor& stream, int64_t first = 0);

}  // namespace mtrun::trainers
