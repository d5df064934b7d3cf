// From sample ids to what a network takes: uint8 images of a packed data set, gathered, placed, augmented and
// normalised in one pass over the bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "datasets/packed.h"
#include "trainers/engine/augment.h"

namespace mtrun::engine {

struct Batch {
  at::Tensor images;  // [n, 3, S, S], (x/255 - 0.5) / 0.5
  at::Tensor labels;  // int64 [n]
};

class BatchMaker {
 public:
  struct Options {
    int image_size = 32;                // S
    at::ScalarType dtype = at::kFloat;  // kFloat or kDouble
    at::Device device = at::Device(at::kCPU);
    at::MemoryFormat format = at::MemoryFormat::Contiguous;  // of the images
  };

  /// `data` must outlive this. Smaller images are centred on black, larger ones resized (bilinear,
  /// antialiased).
  BatchMaker(const datasets::PackedSplit& data, const Options& options);

  /// `placements`: one per id, or empty for none.
  Batch Make(absl::Span<const int64_t> ids, absl::Span<const Placement> placements = {}) const;

 private:
  struct Source {  // the images of one batch as bytes
    std::vector<const uint8_t*> images;
    int height = 0, width = 0;
    at::Tensor owner;  // keeps resized bytes alive
  };
  Source Gather(absl::Span<const int64_t> ids) const;
  Source Resize(const Source& source) const;

  const datasets::PackedSplit& data_;
  const Options options_;
};

}  // namespace mtrun::engine
