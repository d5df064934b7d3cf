// From sample ids to what a network takes: uint8 images of a packed data set, gathered, placed, augmented and normalised in
// one pass over the bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/splitmix.h"
#include "datasets/packed.h"

namespace mtrun::engine {

struct Batch {
  at::Tensor images;  // [n, 3, S, S], (x/255 - 0.5) / 0.5
  at::Tensor labels;  // int64 [n]
};

/// How one image is laid onto the network's square.
struct Placement {
  int dx = 0, dy = 0;  // columns and rows that the cut window moves right and down
  bool flip = false;   // mirrored left to right
  bool operator==(const Placement&) const = default;
};

struct Augmentation {
  bool flip = false;     // each image with probability 0.5
  int crop_padding = 0;  // the window moves by up to this many pixels; what it uncovers is black
};

/// One placement per image, drawn from `stream`: the same for a shard whoever computes it.
std::vector<Placement> DrawPlacements(const Augmentation& augmentation, const NamedStream& stream, int64_t images);

class BatchMaker {
 public:
  struct Options {
    int image_size = 32;                     // S
    at::ScalarType dtype = at::kFloat;       // kFloat or kDouble
    at::Device device = at::Device(at::kCPU);
  };

  /// `data` must outlive this. Smaller images are centred on black, larger ones resized (bilinear, antialiased).
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
