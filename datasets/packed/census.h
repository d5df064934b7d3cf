// Statistics of a set of encoded images: sizes, formats, bytes. A value and pure functions, except
// TakeCensus, which reads the heads of the records, but never decodes pixels.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

struct FormatCount {
  int64_t images = 0;
  int64_t bytes = 0;
  bool operator==(const FormatCount&) const = default;
};

/// Lower bounds of the histogram's bins, by the shorter side in pixels; the last bin has no upper bound.
constexpr std::array<int, 12> kSideBins{1, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096};

struct Census {
  std::array<int64_t, kSideBins.size()> by_side{};  // images in each bin
  FormatCount jpeg = {}, png = {}, other = {};      // `other`: only in sets packed by other programs
  int64_t smallest = 0, median = 0, largest = 0;    // bytes of one image; the lower of two medians
};

/// Returns the bin of a shorter side. REQUIRES: at least 1.
size_t SideBin(int side);
/// Returns "256 to 383", "4096 or more".
std::string SideBinName(size_t bin);

/// Counts the images of all splits. Holds one shard in memory at a time, and eight bytes per image.
/// kDataLoss: a shard is damaged; the message names it. REQUIRES: index.encoded.
absl::StatusOr<Census> TakeCensus(const std::string& root, const Index& index);

}  // namespace mtrun::datasets
