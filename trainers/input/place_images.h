// Gathers, flips, moves and normalises images on the device, a whole batch by the same few tensor operations.
// The result equals that of BatchMaker in host memory, to the last bit.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "datasets/order/sample_sum.h"
#include "trainers/input/placement.h"

namespace mtrun::trainers {

/// Returns one row for each image: its id, then dx, dy and flip of its placement. int64 [n, 4], in a
/// HostBuffer for `device`. `placements`: one per id, or empty for none.
at::Tensor PlacementTable(absl::Span<const int64_t> ids, absl::Span<const Placement> placements,
                          at::Device device);
/// Returns the samples in a table in host memory.
datasets::SampleSum SamplesOf(const at::Tensor& table);

/// Places images. `bytes`: uint8 [N, H, W, 3], H and W at most `size`; `table`: a PlacementTable; `values`:
/// [256]; all on one device. Returns [n, 3, size, size] of `values`' dtype. It neither reads back nor waits,
/// and the sizes of its result depend only on the sizes of its arguments.
at::Tensor PlaceImages(const at::Tensor& bytes, const at::Tensor& table, const at::Tensor& values, int size);

}  // namespace mtrun::trainers
