#include "datasets/images/tiff.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/images/cmyk.h"
#include "datasets/images/tiff_library.h"

namespace mtrun::datasets {
namespace {

constexpr int kMaxSamples = 8;

/// The layout of the first image.
struct TiffLayout {
  ImageSize size;
  int bits = 0;     // a sample
  int samples = 0;  // a pixel, including alpha
  int colours = 0;  // samples that are not alpha or unknown
  int meaning = 0;  // photometric interpretation
  bool planes = false, tiled = false;
  bool multiplied = false;  // colours are multiplied by the sample after them
  std::array<std::vector<uint8_t>, 3> palette = {};
};

absl::Status NotTakenTiff(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("a TIFF ", what, " is not taken: convert it"));
}

/// Returns the number of samples that the colour of a pixel has; 0 for meanings that are not taken.
int ColoursOf(int meaning) {
  switch (meaning) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_PALETTE:
      return 1;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      return 3;
    case PHOTOMETRIC_SEPARATED:
      return 4;
    default:
      return 0;
  }
}

bool TakesBits(int meaning, int bits) {
  if (bits == 8) return true;
  if (bits == 16)
    return meaning == PHOTOMETRIC_MINISBLACK || meaning == PHOTOMETRIC_RGB ||
           meaning == PHOTOMETRIC_SEPARATED;
  return (bits == 1 || bits == 2 || bits == 4) && ColoursOf(meaning) == 1;
}

absl::Status CheckCoding(const TiffReader& reader, const TiffLayout& layout) {
  const uint16_t coding = reader.Short(TIFFTAG_COMPRESSION);
  if (coding == COMPRESSION_OJPEG) return NotTakenTiff("of JPEG data in the old style");
  if (TIFFIsCODECConfigured(coding) == 0) return NotTakenTiff(absl::StrCat("of compression ", coding));
  if (layout.meaning == PHOTOMETRIC_YCBCR && layout.planes) return NotTakenTiff("of YCbCr in planes");
  if (layout.meaning == PHOTOMETRIC_SEPARATED && reader.Short(TIFFTAG_INKSET) != INKSET_CMYK)
    return NotTakenTiff("of inks that are not CMYK");
  return absl::OkStatus();
}

/// Refuses kinds that are not taken.
absl::Status CheckTiffKind(const TiffReader& reader, const TiffLayout& layout) {
  const int format = reader.Short(TIFFTAG_SAMPLEFORMAT);
  if (format == SAMPLEFORMAT_IEEEFP)
    return NotTakenTiff(absl::StrCat("of floating-point samples (", layout.bits, " bits)"));
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
    return NotTakenTiff("of signed or complex samples");
  if (layout.colours == 0)
    return NotTakenTiff(absl::StrCat("of photometric interpretation ", layout.meaning));
  if (!TakesBits(layout.meaning, layout.bits)) {
    if (layout.meaning == PHOTOMETRIC_PALETTE)
      return NotTakenTiff(absl::StrCat("with a palette of ", layout.bits, " bits"));
    if (layout.bits == 16 && layout.meaning == PHOTOMETRIC_MINISWHITE)
      return NotTakenTiff("of 16 bits a sample in which 0 is white");
    return NotTakenTiff(absl::StrCat("of ", layout.bits, " bits a sample"));
  }
  if (layout.samples < layout.colours || layout.samples > kMaxSamples ||
      (layout.samples > 1 && layout.bits < 8) || (layout.meaning == PHOTOMETRIC_YCBCR && layout.samples != 3))
    return NotTakenTiff(absl::StrCat("of ", layout.samples, " samples of ", layout.bits, " bits a pixel"));
  return CheckCoding(reader, layout);
}

void ReadColourMap(const TiffReader& reader, TiffLayout& layout) {
  uint16_t* maps[3] = {};
  if (layout.meaning != PHOTOMETRIC_PALETTE ||
      TIFFGetField(reader.tiff(), TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) == 0)
    return;
  for (size_t c = 0; c < 3; ++c) {
    for (int i = 0; i < 1 << layout.bits; ++i)
      layout.palette[c].push_back(static_cast<uint8_t>(maps[c][i] >> 8));
  }
}

absl::StatusOr<TiffLayout> ReadLayout(const TiffReader& reader, const DecodeLimits& limits) {
  TIFF* const tiff = reader.tiff();
  if (tiff == nullptr || reader.damaged()) return reader.Failure();
  uint32_t width = 0, height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  MT_RETURN_IF_ERROR(CheckLimits(height, width, limits));
  TiffLayout layout{.size = {static_cast<int>(height), static_cast<int>(width)},
                    .bits = reader.Short(TIFFTAG_BITSPERSAMPLE),
                    .samples = reader.Short(TIFFTAG_SAMPLESPERPIXEL)};
  uint16_t meaning = 0;
  if (TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &meaning) == 0)
    return NotTakenTiff("without a photometric interpretation");
  layout.meaning = meaning;
  layout.colours = ColoursOf(meaning);
  layout.planes = layout.samples > 1 && reader.Short(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
  layout.tiled = TIFFIsTiled(tiff) != 0;
  MT_RETURN_IF_ERROR(CheckTiffKind(reader, layout));
  uint16_t count = 0, *extra = nullptr;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &count, &extra);
  layout.multiplied = count > 0 && layout.samples > layout.colours && extra[0] == EXTRASAMPLE_ASSOCALPHA &&
                      layout.meaning != PHOTOMETRIC_PALETTE && layout.meaning != PHOTOMETRIC_SEPARATED;
  ReadColourMap(reader, layout);
  if (meaning == PHOTOMETRIC_PALETTE && layout.palette[0].empty())
    return absl::DataLossError("truncated or damaged TIFF: no palette");
  return layout;
}

/// Undoes a multiplication by alpha; colours without alpha are black.
uint8_t Divided(int colour, int alpha) {
  return static_cast<uint8_t>(alpha == 0 ? 0 : std::min(255, colour * 255 / alpha));
}

/// Converts a pixel of 8-bit samples (or an index or a grey value of fewer bits) to RGB.
void PixelToRgb(const TiffLayout& layout, std::array<uint8_t, kMaxSamples>& pixel, uint8_t* rgb) {
  if (layout.multiplied) {
    for (int c = 0; c < layout.colours; ++c) pixel[c] = Divided(pixel[c], pixel[layout.colours]);
  }
  switch (layout.meaning) {
    case PHOTOMETRIC_PALETTE:
      for (size_t c = 0; c < 3; ++c) rgb[c] = layout.palette[c][pixel[0]];
      return;
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK: {
      const int grey = layout.bits < 8 ? pixel[0] * 255 / ((1 << layout.bits) - 1) : pixel[0];
      std::fill_n(rgb, 3, static_cast<uint8_t>(layout.meaning == PHOTOMETRIC_MINISWHITE ? 255 - grey : grey));
      return;
    }
    case PHOTOMETRIC_SEPARATED:
      for (int c = 0; c < 4; ++c) pixel[c] = static_cast<uint8_t>(255 - pixel[c]);
      LightOfInks(pixel.data(), rgb);
      return;
    default:
      std::copy_n(pixel.data(), 3, rgb);
  }
}

/// Returns sample `i` of a row: its upper 8 bits, or all if it has fewer.
uint8_t SampleAt(const uint8_t* row, size_t i, int bits) {
  if (bits == 8) return row[i];
  if (bits == 16) {
    uint16_t value = 0;
    std::memcpy(&value, row + 2 * i, sizeof value);
    return static_cast<uint8_t>(value >> 8);
  }
  const auto bit = i * static_cast<size_t>(bits);
  return static_cast<uint8_t>((row[bit / 8] >> (8 - bits - static_cast<int>(bit % 8))) & ((1 << bits) - 1));
}

/// A strip or a tile: where it is in the image, and the bytes of its rows.
struct Piece {
  int64_t top = 0, left = 0, height = 0, width = 0;  // its part inside the image
  size_t row_bytes = 0;
  std::vector<std::vector<uint8_t>> planes;  // one, or one for each sample
};

void Place(const TiffLayout& layout, const Piece& piece, RgbImage& image) {
  const auto samples = static_cast<size_t>(layout.samples);
  std::array<uint8_t, kMaxSamples> pixel = {};
  for (int64_t y = 0; y < piece.height; ++y) {
    const size_t at = static_cast<size_t>(y) * piece.row_bytes;
    uint8_t* rgb = image.pixels.data() +
                   size_t{3} * static_cast<size_t>((piece.top + y) * layout.size.width + piece.left);
    for (size_t x = 0; x < static_cast<size_t>(piece.width); ++x, rgb += 3) {
      for (size_t s = 0; s < samples; ++s) {
        pixel[s] = layout.planes ? SampleAt(piece.planes[s].data() + at, x, layout.bits)
                                 : SampleAt(piece.planes[0].data() + at, x * samples + s, layout.bits);
      }
      PixelToRgb(layout, pixel, rgb);
    }
  }
}

absl::Status ReadStrips(TiffReader& reader, const TiffLayout& layout, RgbImage& image) {
  TIFF* const tiff = reader.tiff();
  uint32_t rows = 0;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &rows);
  const int64_t height = layout.size.height, each = std::min<int64_t>(height, rows);
  const tmsize_t row_bytes = TIFFScanlineSize(tiff);
  if (each < 1 || row_bytes < 1) return reader.Failure();
  const auto strips = static_cast<uint32_t>((height + each - 1) / each);
  Piece piece{.width = layout.size.width, .row_bytes = static_cast<size_t>(row_bytes), .planes = {}};
  piece.planes.resize(static_cast<size_t>(layout.planes ? layout.samples : 1));
  for (uint32_t strip = 0; strip < strips; ++strip) {
    piece.top = strip * each;
    piece.height = std::min(each, height - piece.top);
    const auto size = static_cast<tmsize_t>(piece.height * row_bytes);
    for (size_t plane = 0; plane < piece.planes.size(); ++plane) {
      piece.planes[plane].resize(static_cast<size_t>(size));
      const auto number = static_cast<uint32_t>(plane) * strips + strip;
      if (TIFFReadEncodedStrip(tiff, number, piece.planes[plane].data(), size) != size || reader.damaged())
        return reader.Failure();
    }
    Place(layout, piece, image);
  }
  return absl::OkStatus();
}

absl::Status ReadTiles(TiffReader& reader, const TiffLayout& layout, const DecodeLimits& limits,
                       RgbImage& image) {
  TIFF* const tiff = reader.tiff();
  uint32_t width = 0, height = 0;
  TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_TILELENGTH, &height);
  MT_RETURN_IF_ERROR(CheckLimits(height, width, limits));
  const tmsize_t size = TIFFTileSize(tiff), row_bytes = TIFFTileRowSize(tiff);
  if (row_bytes < 1 || size < row_bytes * static_cast<tmsize_t>(height)) return reader.Failure();
  Piece piece{.row_bytes = static_cast<size_t>(row_bytes), .planes = {}};
  piece.planes.resize(static_cast<size_t>(layout.planes ? layout.samples : 1),
                      std::vector<uint8_t>(static_cast<size_t>(size)));
  for (piece.top = 0; piece.top < layout.size.height; piece.top += height) {
    piece.height = std::min<int64_t>(height, layout.size.height - piece.top);
    for (piece.left = 0; piece.left < layout.size.width; piece.left += width) {
      piece.width = std::min<int64_t>(width, layout.size.width - piece.left);
      for (size_t plane = 0; plane < piece.planes.size(); ++plane) {
        const uint32_t number =
            TIFFComputeTile(tiff, static_cast<uint32_t>(piece.left), static_cast<uint32_t>(piece.top), 0,
                            static_cast<uint16_t>(plane));
        if (TIFFReadEncodedTile(tiff, number, piece.planes[plane].data(), size) != size || reader.damaged())
          return reader.Failure();
      }
      Place(layout, piece, image);
    }
  }
  return absl::OkStatus();
}

/// Reads YCbCr of any sampling through libtiff's own conversion, as Pillow does. Rows stay as in the file.
absl::Status ReadYcbcr(TiffReader& reader, const TiffLayout& layout, RgbImage& image) {
  TIFFRGBAImage library;
  char message[1024] = {};
  if (TIFFRGBAImageBegin(&library, reader.tiff(), 1, message) == 0)
    return NotTakenTiff(absl::StrCat("of this kind (", message, ")"));
  library.req_orientation = library.orientation;  // turns nothing
  std::vector<uint32_t> pixels(static_cast<size_t>(layout.size.pixels()));
  const int read = TIFFRGBAImageGet(&library, pixels.data(), static_cast<uint32_t>(layout.size.width),
                                    static_cast<uint32_t>(layout.size.height));
  TIFFRGBAImageEnd(&library);
  if (read == 0 || reader.damaged()) return reader.Failure();
  uint8_t* out = image.pixels.data();
  for (const uint32_t pixel : pixels) {
    *out++ = static_cast<uint8_t>(TIFFGetR(pixel));
    *out++ = static_cast<uint8_t>(TIFFGetG(pixel));
    *out++ = static_cast<uint8_t>(TIFFGetB(pixel));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsTiff(std::string_view file) {
  const std::string_view head = file.substr(0, 4);
  return head == std::string_view("II*\0", 4) || head == std::string_view("MM\0*", 4) ||
         head == std::string_view("II+\0", 4) || head == std::string_view("MM\0+", 4);
}

absl::StatusOr<ImageSize> TiffSize(std::string_view file) {
  if (!IsTiff(file)) return absl::InvalidArgumentError("not a TIFF image");
  const TiffReader reader(file);
  MT_ASSIGN_OR_RETURN(const TiffLayout layout, ReadLayout(reader, {.max_pixels = INT64_MAX}));
  return layout.size;
}

absl::StatusOr<RgbImage> DecodeTiff(std::string_view file, const DecodeLimits& limits) {
  if (!IsTiff(file)) return absl::InvalidArgumentError("not a TIFF image");
  TiffReader reader(file);
  MT_ASSIGN_OR_RETURN(const TiffLayout layout, ReadLayout(reader, limits));
  reader.ExpectPixels();
  RgbImage image = MakeImage(layout.size);
  const bool ycbcr = layout.meaning == PHOTOMETRIC_YCBCR;
  if (ycbcr && reader.Short(TIFFTAG_COMPRESSION) != COMPRESSION_JPEG) {
    MT_RETURN_IF_ERROR(ReadYcbcr(reader, layout, image));
    return image;
  }
  if (ycbcr) TIFFSetField(reader.tiff(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  MT_RETURN_IF_ERROR(layout.tiled ? ReadTiles(reader, layout, limits, image)
                                  : ReadStrips(reader, layout, image));
  return image;
}

}  // namespace mtrun::datasets
