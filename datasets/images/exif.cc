#include "datasets/images/exif.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/status_macros.h"
#include "datasets/images/byte_number.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/jpeg_markers.h"
#include "datasets/images/png.h"
#include "datasets/images/png_profile.h"
#include "datasets/images/tiff.h"
#include "datasets/images/webp.h"

namespace mtrun::datasets {
namespace {

constexpr int kUpright = 1, kMirrored = 2, kUpsideDown = 3, kTransposed = 5;
constexpr uint64_t kOrientationTag = 274, kShort = 3, kLong = 4;
constexpr std::string_view kExifName("Exif\0\0", 6);
constexpr std::string_view kXmpName("http://ns.adobe.com/xap/1.0/\0", 29);

uint64_t Big(std::string_view bytes, size_t at, size_t count) { return NumberAt(bytes, at, count, false); }

/// Sizes in a directory of TIFF, or of BigTIFF.
struct DirectoryForm {
  size_t offset_at, offset, count, entry, value_at;
};
constexpr DirectoryForm kTiffForm{4, 4, 2, 12, 8}, kBigTiffForm{8, 8, 8, 20, 12};

/// Reads a TIFF header, then the first directory: a count and entries. 0 if it has no orientation.
int OrientationOf(std::string_view tiff) {
  const bool little = tiff.substr(0, 2) == "II";
  if (!little && tiff.substr(0, 2) != "MM") return 0;
  const DirectoryForm& form = NumberAt(tiff, 2, 2, little) == 43 ? kBigTiffForm : kTiffForm;
  const uint64_t directory = NumberAt(tiff, form.offset_at, form.offset, little);
  if (directory >= tiff.size()) return 0;
  const std::string_view rest = tiff.substr(directory);
  const uint64_t entries = NumberAt(rest, 0, form.count, little);
  size_t entry = form.count;
  for (uint64_t i = 0; i < entries && entry < rest.size(); ++i, entry += form.entry) {
    if (NumberAt(rest, entry, 2, little) != kOrientationTag) continue;
    const uint64_t type = NumberAt(rest, entry + 2, 2, little);
    const uint64_t value = NumberAt(rest, entry + form.value_at, type == kLong ? 4 : 2, little);
    const bool known = (type == kShort || type == kLong) && value >= 1 && value <= 8;
    return known ? static_cast<int>(value) : kUpright;
  }
  return 0;
}

/// Reads `tiff:Orientation="6"` or `<tiff:Orientation>6<` of an XMP packet; 0 if it has none.
int OrientationOfXmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at)) {
    at += kName.size();
    const size_t digit = at + (xmp.substr(at, 1) == ">" ? 1 : 2);
    const bool begins = digit == at + 1 || xmp.substr(at, 2) == "=\"";
    if (!begins || digit >= xmp.size() || xmp[digit] < '0' || xmp[digit] > '9') continue;
    const int value = xmp[digit] - '0';
    return value >= 1 && value <= 8 ? value : kUpright;
  }
  return 0;
}

/// What a file says of its orientation.
struct Blocks {
  std::string_view exif = {}, xmp = {};
  std::string profile = {};  // Exif as text
};

/// Reads the segments before the pixels. The first block of a kind counts.
Blocks FindInJpeg(std::string_view file) {
  Blocks found;
  for (size_t at = FindMarkerCode(file, 2); at != std::string_view::npos; at = FindMarkerCode(file, at)) {
    const auto marker = static_cast<uint8_t>(file[at++]);
    if (marker == kStartOfScan || marker == kEndOfImage) break;
    if (StandsAlone(marker)) continue;
    const size_t length = Big(file, at, 2);
    if (marker == kApp1 && length >= 2) {
      const std::string_view body = file.substr(at + 2, length - 2);
      const bool exif = body.substr(0, kExifName.size()) == kExifName;
      if (exif && found.exif.empty()) found.exif = body.substr(kExifName.size());
      if (body.substr(0, kXmpName.size()) == kXmpName && found.xmp.empty())
        found.xmp = body.substr(kXmpName.size());
    }
    at += length;
  }
  return found;
}

/// Reads the chunk eXIf and the texts of Exif and XMP, before or after the pixels: length, name, data,
/// checksum.
Blocks FindInPng(std::string_view file) {
  constexpr std::string_view kText("XML:com.adobe.xmp\0\0", 19);  // not compressed
  Blocks found;
  size_t at = 8;
  while (at + 12 <= file.size()) {
    const size_t length = Big(file, at, 4);
    const std::string_view name = file.substr(at + 4, 4), body = file.substr(at + 8, length);
    if (name == "eXIf" && found.exif.empty()) found.exif = body;
    if (name == "iTXt" && body.substr(0, kText.size()) == kText && found.xmp.empty()) found.xmp = body;
    if (found.profile.empty()) found.profile = ExifProfileOf(name, body);
    at += 12 + length;
  }
  return found;
}

/// Reads the chunks EXIF and XMP: name, length, data, padded to two bytes. Some writers begin EXIF as in a
/// JPEG.
Blocks FindInWebp(std::string_view file) {
  Blocks found;
  size_t at = 12;
  while (at + 8 <= file.size()) {
    const size_t length = NumberAt(file, at + 4, 4, true);
    std::string_view body = file.substr(at + 8, length);
    if (body.substr(0, kExifName.size()) == kExifName) body.remove_prefix(kExifName.size());
    if (file.substr(at, 4) == "EXIF" && found.exif.empty()) found.exif = body;
    if (file.substr(at, 4) == "XMP " && found.xmp.empty()) found.xmp = body;
    at += 8 + length + length % 2;
  }
  return found;
}

Blocks FindBlocks(std::string_view file) {
  if (IsJpeg(file)) return FindInJpeg(file);
  if (IsPng(file)) return FindInPng(file);
  if (IsWebp(file)) return FindInWebp(file);
  return IsTiff(file) ? Blocks{.exif = file} : Blocks{};
}

}  // namespace

int ExifOrientation(std::string_view file) {
  const Blocks blocks = FindBlocks(file);
  int found = OrientationOf(blocks.exif);
  if (found == 0) found = OrientationOf(blocks.profile);
  if (found == 0) found = OrientationOfXmp(blocks.xmp);
  return found == 0 ? kUpright : found;
}

ImageSize UprightSize(const ImageSize& size, int orientation) {
  return orientation >= kTransposed ? ImageSize{size.width, size.height} : size;
}

RgbImage Upright(const RgbImage& image, int orientation) {
  MT_CHECK(orientation >= 1 && orientation <= 8) << orientation;
  if (orientation == kUpright) return image;
  const bool transposed = orientation >= kTransposed;
  const ImageSize& from = image.size;
  RgbImage out = MakeImage(UprightSize(from, orientation));
  // Orientations 5..8 equal 1, 4, 3, 2 with the axes swapped first.
  const int rest = transposed ? (9 - orientation) % 4 + 1 : orientation;
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
