#include "datasets/images/exif.h"

#include <algorithm>
#include <cstdint>

#include "base/status_macros.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"

namespace mtrun::datasets {
namespace {

constexpr int kUpright = 1, kMirrored = 2, kUpsideDown = 3, kTransposed = 5;
constexpr uint64_t kOrientationTag = 274, kShort = 3;

/// Reads `count` bytes as a number; 0 if they are beyond the end.
uint64_t Number(std::string_view bytes, size_t at, size_t count, bool little_endian) {
  if (at > bytes.size() || count > bytes.size() - at) return 0;
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i)
    value = value << 8 | static_cast<uint8_t>(bytes[little_endian ? at + count - 1 - i : at + i]);
  return value;
}

/// Reads a TIFF header, then the first directory: a count and entries of 12 bytes.
int OrientationOf(std::string_view tiff) {
  const bool little = tiff.substr(0, 2) == "II";
  if (!little && tiff.substr(0, 2) != "MM") return kUpright;
  const size_t directory = Number(tiff, 4, 4, little);
  const size_t entries = Number(tiff, directory, 2, little);
  for (size_t i = 0; i < entries && directory + 2 + 12 * i < tiff.size(); ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (Number(tiff, entry, 2, little) != kOrientationTag) continue;
    const uint64_t value = Number(tiff, entry + 8, 2, little);
    const bool known = Number(tiff, entry + 2, 2, little) == kShort && value >= 1 && value <= 8;
    return known ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

/// Returns the TIFF block of the first APP1 segment that has one, before the pixels.
std::string_view FindInJpeg(std::string_view file) {
  constexpr std::string_view kName("Exif\0\0", 6);
  size_t at = 2;
  while (at + 4 <= file.size() && file[at] == '\xFF' && file[at + 1] != '\xDA') {
    const size_t length = Number(file, at + 2, 2, false);
    const std::string_view body = file.substr(at + 4, length < 2 ? 0 : length - 2);
    if (file[at + 1] == '\xE1' && body.substr(0, kName.size()) == kName) return body.substr(kName.size());
    at += 2 + length;
  }
  return {};
}

/// Returns the data of the eXIf chunk: length, name, data, checksum.
std::string_view FindInPng(std::string_view file) {
  size_t at = 8;
  while (at + 12 <= file.size()) {
    const size_t length = Number(file, at, 4, false);
    if (file.substr(at + 4, 4) == "eXIf") return file.substr(at + 8, length);
    at += 12 + length;
  }
  return {};
}

}  // namespace

int ExifOrientation(std::string_view file) {
  if (IsJpeg(file)) return OrientationOf(FindInJpeg(file));
  return IsPng(file) ? OrientationOf(FindInPng(file)) : kUpright;
}

RgbImage Upright(const RgbImage& image, int orientation) {
  MT_CHECK(orientation >= 1 && orientation <= 8) << orientation;
  if (orientation == kUpright) return image;
  const bool transposed = orientation >= kTransposed;
  const ImageSize& from = image.size;
  RgbImage out = MakeImage(transposed ? ImageSize{from.width, from.height} : from);
  // Orientations 5..8 equal 1, 4, 3, 2 with the axes swapped first.
  const int rest = transposed ? (orientation == 5   ? 1
                                 : orientation == 6 ? 4
                                 : orientation == 7 ? 3
                                                    : 2)
                              : orientation;
  const bool flips_rows = rest == kUpsideDown || rest == 4;
  const bool flips_columns = rest == kMirrored || rest == kUpsideDown;
  uint8_t* to = out.pixels.data();
  for (int y = 0; y < out.size.height; ++y) {
    for (int x = 0; x < out.size.width; ++x, to += 3) {
      int row = transposed ? x : y, column = transposed ? y : x;
      if (flips_rows) row = from.height - 1 - row;
      if (flips_columns) column = from.width - 1 - column;
      std::copy_n(image.pixels.data() + size_t{3} * (size_t(row) * from.width + column), 3, to);
    }
  }
  return out;
}

}  // namespace mtrun::datasets
