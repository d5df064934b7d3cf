// The bytes of packed images, no larger than a network takes. Pure functions of the data.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "datasets/packed.h"
#include "datasets/sample_sum.h"

namespace mtrun::trainers {

/// Images of one size, [height, width, 3] bytes each.
struct ImageBytes {
  std::vector<const uint8_t*> images;
  int height = 0, width = 0;
  at::Tensor owner;                       // keeps resized bytes alive; the others lie in the mapped data
  datasets::PackedSplit::Held held = {};  // ... which stays mapped for them
  bool packed = false;                    // `owner` is what PackImages makes
  std::vector<int64_t> labels = {};
  datasets::SampleSum gathered = {};

  int64_t bytes_per_image() const { return int64_t{3} * height * width; }
};

/// The images `ids` of `data`, which must outlive the result; larger ones are resized to `size` x `size`
/// (bilinear, antialiased), each by itself. Encoded images are decoded exactly, by ATen's threads; where they
/// differ in size or are larger, a square in the middle of each, of `part` of the shorter side, is resized to
/// `size` x `size`. Throws c10::Error when one is not there, or cannot be decoded, which an import has
/// excluded: the disk is to blame.
ImageBytes GatherImages(const datasets::PackedSplit& data, absl::Span<const int64_t> ids, int size,
                        double part = 1);

/// The images as uint8 [n, H, W, 3], in a HostBuffer for `device`.
at::Tensor PackImages(const ImageBytes& source, at::Device device);

/// Bytes that all images of `data` take as GatherImages returns them.
int64_t BytesOfAll(const datasets::PackedSplit& data, int size);

}  // namespace mtrun::trainers
