// Bytes of packed images, no larger than a network takes. Pure functions of the data.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "datasets/order/sample_sum.h"
#include "datasets/packed/packed.h"

namespace mtrun::trainers {

/// Images of one size, [height, width, 3] bytes each.
struct ImageBytes {
  std::vector<const uint8_t*> images;
  int height = 0, width = 0;
  at::Tensor owner;                       // owns resized bytes; other images are in the mapped data
  datasets::PackedSplit::Held held = {};  // keeps that data mapped
  bool packed = false;                    // `owner` is a result of PackImages
  std::vector<int64_t> labels = {};
  datasets::SampleSum gathered = {};

  int64_t bytes_per_image() const { return int64_t{3} * height * width; }
};

/// Gathers the images `ids` of `data`, which must outlive the result. Larger ones are resized to `size` x
/// `size` (bilinear, antialiased), each by itself. Encoded images are decoded exactly, on ATen's threads. If
/// they differ in size or are larger, the middle square of each, of `part` of the shorter side, is resized to
/// `size` x `size`. Throws c10::Error if an image is missing or cannot be decoded. Imports check that images
/// decode, so the disk is the cause.
ImageBytes GatherImages(const datasets::PackedSplit& data, absl::Span<const int64_t> ids, int size,
                        double part = 1);

/// Returns the images as uint8 [n, H, W, 3], in a HostBuffer for `device`.
at::Tensor PackImages(const ImageBytes& source, at::Device device);

/// Returns the bytes of all images of `data` in the form that GatherImages returns.
int64_t BytesOfAll(const datasets::PackedSplit& data, int size);

}  // namespace mtrun::trainers
