// Gathering, flipping, moving and normalising images that lie on the device, a whole batch by the same few
// tensor operations: what BatchMaker does byte by byte in host memory, with the same result to the last bit.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "datasets/sample_sum.h"
#include "trainers/input/placement.h"

namespace mtrun::trainers {

/// One row an image: its id, then dx, dy and flip of its placement. int64 [n, 4], in a HostBuffer for
/// `device`. `placements`: one per id, or empty for none.
at::Tensor PlacementTable(absl::Span<const int64_t> ids, absl::Span<const Placement> placements,
                          at::Device device);
/// Of the rows of a table in host memory.
datasets::SampleSum SamplesOf(const at::Tensor& table);

/// `bytes`: uint8 [N, H, W, 3], H and W at most `size`; `table`: a PlacementTable; `values`: [256]; all on
/// one device. Returns [n, 3, size, size] of `values`' dtype. Neither reads back nor waits, and the sizes of
/// what it returns depend on the sizes of its arguments alone.
at::Tensor PlaceImages(const at::Tensor& bytes, const at::Tensor& table, const at::Tensor& values, int size);

}  // namespace mtrun::trainers
