// What the images of a set of encoded images are like: sizes, formats, bytes. A value and pure functions but
// for TakeCensus, which reads the heads of the records, never their pixels.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/index.h"

namespace mtrun::datasets {

struct FormatCount {
  int64_t images = 0;
  int64_t bytes = 0;
  bool operator==(const FormatCount&) const = default;
};

/// Where the bins of the histogram begin, by the shorter side in pixels; the last one has no end.
constexpr std::array<int, 12> kSideBins{1, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096};

struct Census {
  std::array<int64_t, kSideBins.size()> by_side{};  // images in each bin
  FormatCount jpeg = {}, png = {}, other = {};      // `other`: what only a foreign writer packs
  int64_t smallest = 0, median = 0, largest = 0;    // bytes of one image; the lower one of two medians
};

/// Number of the bin of a shorter side. REQUIRES: at least 1.
size_t SideBin(int side);
/// "256 to 383", "4096 or more".
std::string SideBinName(size_t bin);

/// Of all splits. Holds one shard in memory at a time, and eight bytes for each image. kDataLoss names the
/// shard that is damaged. REQUIRES: index.encoded.
absl::StatusOr<Census> TakeCensus(const std::string& root, const Index& index);

}  // namespace mtrun::datasets
