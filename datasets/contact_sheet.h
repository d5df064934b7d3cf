// A contact sheet: images of a split as one picture of square cells, and what cell shows what. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"
#include "datasets/packed.h"

namespace mtrun::datasets {

/// Side of a cell, and of the line around each, in pixels.
constexpr int kCellSide = 96, kCellBorder = 2;
/// Bounds what a sheet needs in memory, about 120 MB.
constexpr int64_t kMaxCells = 4096;

struct ContactSheet {
  RgbImage picture = {};
  int columns = 0;
  std::vector<int64_t> images = {};  // numbers in the split; row by row, from left to right
};

/// `count` numbers below `size` in growing order, evenly spread; all of them where there are fewer.
std::vector<int64_t> SpreadOver(int64_t size, int64_t count);
/// The size with this image's shape that just fits into a cell; small images grow.
ImageSize FitIntoCell(const ImageSize& size);

/// About as many columns as rows; a cell's image stands in its middle. kDataLoss names an image that does not
/// decode. REQUIRES: count is within 1..kMaxCells.
absl::StatusOr<ContactSheet> MakeContactSheet(const PackedSplit& split, int64_t count);
/// A line for each cell: row and column from 1, number of the image in the split, name of its class.
std::string CellTable(const ContactSheet& sheet, const PackedSplit& split);

}  // namespace mtrun::datasets
