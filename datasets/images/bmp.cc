#include "datasets/images/bmp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/images/byte_number.h"

namespace mtrun::datasets {
namespace {

using Rgb = std::array<uint8_t, 3>;

constexpr size_t kFileHeader = 14, kMasksAt = 54;
/// Sizes of the headers of OS/2 (12; 16 and 64) and of Windows (40 and more).
constexpr uint64_t kCoreHeader = 12, kOs2Header = 64, kInfoHeader = 40;
constexpr uint64_t kHeaderSizes[] = {kCoreHeader, 16, kInfoHeader, 52, 56, kOs2Header, 108, 124};
enum Compression : uint64_t {
  kPlain = 0,
  kRle8 = 1,
  kRle4 = 2,
  kMasks = 3,
  kJpegInside = 4,
  kPngInside = 5,
  kAlphaMasks = 6
};

struct BmpHeader {
  int64_t height = 0, width = 0;  // as claimed
  bool top_down = false;
  int bits = 0;  // of a pixel
  uint64_t compression = kPlain;
  size_t pixels_at = 0;
  std::array<uint32_t, 3> masks = {};
  std::vector<Rgb> palette = {};

  bool runs() const { return compression == kRle8 || compression == kRle4; }
  size_t stride() const { return static_cast<size_t>((width * bits + 31) / 32 * 4); }
};

uint64_t Little(std::string_view file, size_t at, size_t count) { return NumberAt(file, at, count, true); }

absl::Status NotTakenBmp(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("a BMP ", absl::string_view(what.data(), what.size()), " is not taken: convert it"));
}

/// Refuses kinds that cannot be decoded.
absl::Status CheckKind(const BmpHeader& header, uint64_t header_size) {
  const int bits = header.bits;
  if (header_size == kOs2Header && header.compression == kMasks) return NotTakenBmp("with Huffman coding");
  if (header_size == kOs2Header && header.compression == kJpegInside) return NotTakenBmp("of RLE24");
  if (header.compression == kJpegInside) return NotTakenBmp("with a JPEG inside");
  if (header.compression == kPngInside) return NotTakenBmp("with a PNG inside");
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
    return NotTakenBmp(absl::StrCat("of ", bits, " bits a pixel"));
  const bool fits = header.compression == kPlain || (header.compression == kRle8 && bits == 8) ||
                    (header.compression == kRle4 && bits == 4) ||
                    ((header.compression == kMasks || header.compression == kAlphaMasks) && bits >= 16);
  if (fits) return absl::OkStatus();
  return NotTakenBmp(absl::StrCat("of compression ", header.compression, " with ", bits, " bits a pixel"));
}

/// Returns the masks of red, green and blue. Masks that are all zero mean the usual ones.
std::array<uint32_t, 3> MasksOf(std::string_view file, const BmpHeader& header) {
  if (header.compression == kMasks || header.compression == kAlphaMasks) {
    std::array<uint32_t, 3> masks;
    for (size_t c = 0; c < 3; ++c) masks[c] = static_cast<uint32_t>(Little(file, kMasksAt + 4 * c, 4));
    if (masks[0] != 0 || masks[1] != 0 || masks[2] != 0) return masks;
  }
  if (header.bits == 16) return {0x7C00, 0x3E0, 0x1F};
  return {0xFF0000, 0xFF00, 0xFF};
}

/// Reads the palette behind a header and returns the position of its end.
size_t ReadPalette(std::string_view file, uint64_t header_size, BmpHeader& header) {
  const size_t entry = header_size == kCoreHeader ? 3 : 4, begin = kFileHeader + header_size;
  const uint64_t most = uint64_t{1} << header.bits;
  uint64_t claimed = header_size >= kInfoHeader ? Little(file, 46, 4) : 0;
  if (claimed == 0) claimed = most;
  for (size_t i = 0; i < std::min(claimed, most); ++i) {
    const uint64_t bgr = Little(file, begin + entry * i, 3);
    header.palette.push_back(
        {static_cast<uint8_t>(bgr >> 16), static_cast<uint8_t>(bgr >> 8), static_cast<uint8_t>(bgr)});
  }
  return begin + entry * static_cast<size_t>(std::min<uint64_t>(claimed, 65536));
}

absl::StatusOr<BmpHeader> ReadBmpHeader(std::string_view file, const DecodeLimits& limits) {
  if (!IsBmp(file)) return absl::InvalidArgumentError("not a BMP image");
  const uint64_t size = Little(file, kFileHeader, 4);
  if (std::find(std::begin(kHeaderSizes), std::end(kHeaderSizes), size) == std::end(kHeaderSizes) ||
      file.size() < kFileHeader + size)
    return absl::DataLossError("truncated or damaged BMP");
  BmpHeader header;
  if (size == kCoreHeader) {
    header.width = static_cast<int64_t>(Little(file, 18, 2));
    header.height = static_cast<int64_t>(Little(file, 20, 2));
    header.bits = static_cast<int>(Little(file, 24, 2));
  } else {
    const auto height = static_cast<int32_t>(Little(file, 22, 4));
    header.width = static_cast<int32_t>(Little(file, 18, 4));
    header.height = std::abs(int64_t{height});
    header.top_down = height < 0;
    header.bits = static_cast<int>(Little(file, 28, 2));
    if (size >= kInfoHeader) header.compression = Little(file, 30, 4);
  }
  MT_RETURN_IF_ERROR(CheckKind(header, size));
  MT_RETURN_IF_ERROR(CheckLimits(header.height, header.width, limits));
  header.masks = MasksOf(file, header);
  size_t end = kFileHeader + size;
  if (header.bits <= 8) end = ReadPalette(file, size, header);
  header.pixels_at = Little(file, 10, 4);
  // Some writers forget the palette in the position of the pixels, or the position itself.
  if (header.pixels_at < kFileHeader + size || (header.bits <= 8 && header.pixels_at == kFileHeader + size))
    header.pixels_at = end;
  return header;
}

/// Decodes runs into one palette index per pixel, rows as in the file. Pixels that are left out keep 0.
class RunDecoder {
 public:
  RunDecoder(std::string_view bytes, const BmpHeader& header)
      : bytes_(bytes),
        header_(header),
        indexes_(static_cast<size_t>(header.height * header.width)),
        four_(header.compression == kRle4) {}

  absl::StatusOr<std::vector<uint8_t>> Decode() {
    while (y_ < header_.height) {
      if (at_ + 2 > bytes_.size()) return absl::DataLossError("truncated BMP");
      const uint8_t count = Take(), value = Take();
      if (count > 0) {
        for (int i = 0; i < count; ++i) Put(four_ ? (i % 2 == 0 ? value >> 4 : value & 15) : value);
      } else if (value == 0) {
        x_ = 0, ++y_;
      } else if (value == 1) {
        break;
      } else if (value == 2) {
        if (at_ + 2 > bytes_.size()) return absl::DataLossError("truncated BMP");
        x_ += Take();
        y_ += Take();
      } else {
        MT_RETURN_IF_ERROR(Literal(value));
      }
    }
    return std::move(indexes_);
  }

 private:
  uint8_t Take() { return static_cast<uint8_t>(bytes_[at_++]); }
  /// Writes a pixel. Those of a run that are beyond the row are dropped, as in Pillow and Windows.
  void Put(int index) {
    if (x_ < header_.width && y_ < header_.height)
      indexes_[static_cast<size_t>(y_ * header_.width + x_)] = static_cast<uint8_t>(index);
    ++x_;
  }
  /// Takes `count` pixels as they are, padded to two bytes.
  absl::Status Literal(int count) {
    const size_t size = four_ ? (count + 1) / 2 : count;
    if (at_ + size > bytes_.size()) return absl::DataLossError("truncated BMP");
    if (x_ + count > header_.width) return absl::DataLossError("damaged BMP: pixels beyond the end of a row");
    for (int i = 0; i < count; ++i) {
      const auto byte = static_cast<uint8_t>(bytes_[at_ + (four_ ? i / 2 : i)]);
      Put(four_ ? (i % 2 == 0 ? byte >> 4 : byte & 15) : byte);
    }
    at_ += size + size % 2;
    return absl::OkStatus();
  }

  const std::string_view bytes_;
  const BmpHeader& header_;
  std::vector<uint8_t> indexes_;
  const bool four_;
  size_t at_ = 0;
  int64_t x_ = 0, y_ = 0;
};

Rgb PaletteColour(const BmpHeader& header, size_t index) {
  return index < header.palette.size() ? header.palette[index] : Rgb{};
}

uint8_t MaskedColour(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
}

Rgb PixelAt(std::string_view row, int x, const BmpHeader& header) {
  const auto bits = static_cast<size_t>(header.bits);
  if (bits <= 8) {
    const size_t bit = x * bits;
    const int byte = static_cast<uint8_t>(row[bit / 8]);
    return PaletteColour(header, (byte >> (8 - bits - bit % 8)) & ((1 << bits) - 1));
  }
  const auto pixel = static_cast<uint32_t>(Little(row, x * bits / 8, bits / 8));
  return {MaskedColour(pixel, header.masks[0]), MaskedColour(pixel, header.masks[1]),
          MaskedColour(pixel, header.masks[2])};
}

/// Returns the row of the image that row `y` of the file shows.
size_t RowOf(const BmpHeader& header, int64_t y) {
  return static_cast<size_t>(header.top_down ? y : header.height - 1 - y);
}

}  // namespace

bool IsBmp(std::string_view file) { return file.substr(0, 2) == "BM"; }

absl::StatusOr<ImageSize> BmpSize(std::string_view file) {
  MT_ASSIGN_OR_RETURN(const BmpHeader header, ReadBmpHeader(file, {.max_pixels = INT64_MAX}));
  return ImageSize{static_cast<int>(header.height), static_cast<int>(header.width)};
}

absl::StatusOr<RgbImage> DecodeBmp(std::string_view file, const DecodeLimits& limits) {
  MT_ASSIGN_OR_RETURN(const BmpHeader header, ReadBmpHeader(file, limits));
  if (header.pixels_at > file.size()) return absl::DataLossError("truncated BMP");
  const std::string_view bytes = file.substr(header.pixels_at);
  RgbImage image = MakeImage({static_cast<int>(header.height), static_cast<int>(header.width)});
  const auto row_bytes = static_cast<size_t>(3 * header.width);
  if (header.runs()) {
    MT_ASSIGN_OR_RETURN(const std::vector<uint8_t> indexes, RunDecoder(bytes, header).Decode());
    for (int64_t y = 0; y < header.height; ++y) {
      uint8_t* out = image.pixels.data() + RowOf(header, y) * row_bytes;
      for (int64_t x = 0; x < header.width; ++x, out += 3)
        std::ranges::copy(PaletteColour(header, indexes[static_cast<size_t>(y * header.width + x)]), out);
    }
    return image;
  }
  // The last row needs no padding.
  const size_t last = static_cast<size_t>((header.width * header.bits + 7) / 8);
  if (bytes.size() < header.stride() * static_cast<size_t>(header.height - 1) + last)
    return absl::DataLossError("truncated BMP");
  for (int64_t y = 0; y < header.height; ++y) {
    const std::string_view row = bytes.substr(static_cast<size_t>(y) * header.stride(), last);
    uint8_t* out = image.pixels.data() + RowOf(header, y) * row_bytes;
    for (int x = 0; x < header.width; ++x, out += 3) std::ranges::copy(PixelAt(row, x, header), out);
  }
  return image;
}

}  // namespace mtrun::datasets
