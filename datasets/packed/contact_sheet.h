// A contact sheet: a picture of square cells with images of a split, and its list of cells. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"
#include "datasets/packed/packed.h"

namespace mtrun::datasets {

/// Side of a cell, and width of the line around each, in pixels.
constexpr int kCellSide = 96, kCellBorder = 2;
/// Limits the memory of a sheet to about 120 MB.
constexpr int64_t kMaxCells = 4096;

struct ContactSheet {
  RgbImage picture = {};
  int columns = 0;
  std::vector<int64_t> images = {};  // indices in the split; row by row, from left to right
};

/// Returns `count` evenly spaced numbers below `size`, ascending; all of them if there are fewer.
std::vector<int64_t> SpreadOver(int64_t size, int64_t count);
/// Returns the largest size with the image's aspect ratio that fits into a cell; small images are enlarged.
ImageSize FitIntoCell(const ImageSize& size);

/// Returns image i in the size of FitIntoCell. kDataLoss: it cannot be decoded; the message names it.
absl::StatusOr<RgbImage> FittedImage(const PackedSplit& split, int64_t i);

/// Makes a sheet with about as many columns as rows and each image in the middle of its cell. kDataLoss: an
/// image cannot be decoded; the message names it. REQUIRES: count is within 1..kMaxCells.
absl::StatusOr<ContactSheet> MakeContactSheet(const PackedSplit& split, int64_t count);
/// Returns one line per cell: row and column from 1, index of the image in the split, name of its class.
std::string CellTable(const ContactSheet& sheet, const PackedSplit& split);

}  // namespace mtrun::datasets
