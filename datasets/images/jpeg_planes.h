// Brightness and colours of a part of a baseline JPEG. Internal to this folder. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "datasets/images/jpeg_library.h"

namespace mtrun::datasets {

/// A half-open range.
struct SampleRange {
  int begin = 0, end = 0;
};

/// Samples that are wanted of one component, at a scale in eighths.
struct PlanePart {
  int eighths = 8;
  SampleRange columns, rows;
};

/// At least the wanted samples of one component, column after column, for vectors: kLanes more bytes than the
/// last column has can be read.
struct Plane {
  std::unique_ptr<uint8_t[]> samples;
  ptrdiff_t stride = 0;
  int left = 0, top = 0;  // position of the first sample in the whole plane

  const uint8_t* at(int column, int row) const {
    return samples.get() + (column - left) * stride + row - top;
  }
};
using Planes = std::array<Plane, 3>;

/// Returns whether DecodePlanes reads this kind: Huffman-coded, sequential, 8 bits, one scan of Y, Cb and Cr,
/// with colours at full or half the resolution. REQUIRES: the header was read.
bool HasPlainPlanes(const jpeg_decompress_struct& library);

/// Decodes the wanted samples, with libjpeg's bits, and no row below. nullopt if the file is damaged before
/// these end, or has no end marker after the scan: libjpeg knows what it lacks. REQUIRES: HasPlainPlanes, and
/// the wanted samples exist.
std::optional<Planes> DecodePlanes(const jpeg_decompress_struct& library,
                                   const std::array<PlanePart, 3>& wanted);

}  // namespace mtrun::datasets
