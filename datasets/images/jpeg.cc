#include "datasets/images/jpeg.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/images/byte_number.h"
#include "datasets/images/cmyk.h"
#include "datasets/images/jpeg_library.h"
#include "datasets/images/jpeg_markers.h"

namespace mtrun::datasets {
namespace {

/// Smooth chroma upsampling reads neighbours, so a part needs extra columns and rows at its edges.
constexpr int kMargin = 2;

bool IsCmyk(const jpeg_decompress_struct& library) {
  return library.jpeg_color_space == JCS_CMYK || library.jpeg_color_space == JCS_YCCK;
}

/// Reads the header and checks the claimed size.
absl::Status Begin(JpegReader& reader, std::string_view file, const DecodeLimits& limits) {
  if (!IsJpeg(file)) return absl::InvalidArgumentError("not a JPEG image");
  MT_RETURN_IF_ERROR(reader.Call([&] { jpeg_read_header(&reader.library(), TRUE); }));
  jpeg_decompress_struct& library = reader.library();
  MT_RETURN_IF_ERROR(CheckLimits(library.image_height, library.image_width, limits));
  library.out_color_space = IsCmyk(library) ? JCS_CMYK : JCS_RGB;
  library.dct_method = JDCT_ISLOW;
  library.do_fancy_upsampling = TRUE;
  return absl::OkStatus();
}

/// All programs store 255 - ink, whether they write Adobe's marker or not.
void CmykToRgb(const uint8_t* cmyk, int width, uint8_t* rgb) {
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3) LightOfInks(cmyk, rgb);
}

/// Reads all rows of `image`, whose width is libjpeg's output width.
absl::Status ReadRows(JpegReader& reader, RgbImage& image) {
  jpeg_decompress_struct& library = reader.library();
  const size_t stride = size_t{3} * image.size.width;
  const bool cmyk = IsCmyk(library);
  std::vector<uint8_t> buffer(cmyk ? size_t{4} * image.size.width : 0);
  return reader.Call([&] {
    for (int y = 0; y < image.size.height; ++y) {
      uint8_t* const row = image.pixels.data() + y * stride;
      JSAMPROW into = cmyk ? buffer.data() : row;
      jpeg_read_scanlines(&library, &into, 1);
      if (cmyk) CmykToRgb(buffer.data(), image.size.width, row);
    }
  });
}

/// Returns true for brightness in units of 4x2 or 2x4 blocks (4:1:0 and its transpose). With these,
/// libjpeg-turbo before 3.0 reads beyond its rows if a scaled image loses columns, and blends wrong rows if
/// it loses rows.
bool NeedsWhole(const jpeg_decompress_struct& library) {
  return library.max_h_samp_factor * library.max_v_samp_factor >= 8;
}

/// First and last + 1 of the scaled pixels that cover pixels begin .. begin + length - 1.
struct Range {
  int begin = 0, end = 0;
};
Range Scaled(int begin, int length, int eighths, int limit) {
  const int last = (begin + length) * eighths;
  return {std::max(0, begin * eighths / 8 - kMargin), std::min(limit, (last + 7) / 8 + kMargin)};
}

}  // namespace

bool IsJpeg(std::string_view file) { return file.substr(0, 3) == "\xFF\xD8\xFF"; }

bool JpegIsComplete(std::string_view file) {
  for (size_t at = FindMarkerCode(file, 2); at != std::string_view::npos; at = FindMarkerCode(file, at)) {
    const auto marker = static_cast<uint8_t>(file[at++]);
    if (marker == kEndOfImage) return true;
    // The data of a scan follow its header; no byte in them is a marker but a restart.
    if (!StandsAlone(marker)) at += NumberAt(file, at, 2, false);
  }
  return false;
}

absl::StatusOr<ImageSize> JpegSize(std::string_view file) {
  JpegReader reader(file);
  MT_RETURN_IF_ERROR(Begin(reader, file, {.max_pixels = INT64_MAX}));
  return ImageSize{static_cast<int>(reader.library().image_height),
                   static_cast<int>(reader.library().image_width)};
}

absl::StatusOr<RgbImage> DecodeJpeg(std::string_view file, const DecodeLimits& limits) {
  if (IsJpeg(file) && !JpegIsComplete(file)) return absl::DataLossError("truncated JPEG");
  JpegReader reader(file);
  MT_RETURN_IF_ERROR(Begin(reader, file, limits));
  jpeg_decompress_struct& library = reader.library();
  MT_RETURN_IF_ERROR(reader.Call([&] { jpeg_start_decompress(&library); }));
  RgbImage image =
      MakeImage({static_cast<int>(library.output_height), static_cast<int>(library.output_width)});
  MT_RETURN_IF_ERROR(ReadRows(reader, image));
  return image;
}

int SufficientEighths(const ImageBox& box, const ImageSize& at_least) {
  for (const int eighths : {1, 2, 4}) {
    const bool fits = int64_t{box.height} * eighths >= int64_t{8} * at_least.height &&
                      int64_t{box.width} * eighths >= int64_t{8} * at_least.width;
    if (fits) return eighths;
  }
  return 8;
}

absl::StatusOr<JpegPart> DecodeJpegPart(std::string_view file, const ImageBox& box, const ImageSize& at_least,
                                        const DecodeLimits& limits) {
  if (IsJpeg(file) && !JpegIsComplete(file)) return absl::DataLossError("truncated JPEG");
  JpegReader reader(file);
  MT_RETURN_IF_ERROR(Begin(reader, file, limits));
  jpeg_decompress_struct& library = reader.library();
  if (!IsInside(box, {static_cast<int>(library.image_height), static_cast<int>(library.image_width)}))
    return absl::InvalidArgumentError(
        absl::StrCat("the box ends outside ", library.image_height, "x", library.image_width, " pixels"));
  if (NeedsWhole(library)) {
    JpegPart whole;
    MT_ASSIGN_OR_RETURN(whole.image, DecodeJpeg(file, limits));
    return whole;
  }
  JpegPart part{.image = {}, .eighths = SufficientEighths(box, at_least)};
  library.scale_num = static_cast<unsigned>(part.eighths);
  library.scale_denom = 8;
  JDIMENSION left = 0, width = 0;
  Range rows;
  MT_RETURN_IF_ERROR(reader.Call([&] {
    jpeg_start_decompress(&library);
    const Range columns = Scaled(box.left, box.width, part.eighths, static_cast<int>(library.output_width));
    rows = Scaled(box.top, box.height, part.eighths, static_cast<int>(library.output_height));
    left = static_cast<JDIMENSION>(columns.begin);
    width = static_cast<JDIMENSION>(columns.end - columns.begin);
    if (width < library.output_width) jpeg_crop_scanline(&library, &left, &width);
    if (rows.begin > 0) jpeg_skip_scanlines(&library, static_cast<JDIMENSION>(rows.begin));
  }));
  part.top = rows.begin;
  part.left = static_cast<int>(left);
  part.image = MakeImage({rows.end - rows.begin, static_cast<int>(library.output_width)});
  MT_RETURN_IF_ERROR(ReadRows(reader, part.image));
  return part;
}

std::string EncodeJpeg(const RgbImage& image, int quality) {
  MT_CHECK(quality >= 1 && quality <= 100) << quality;
  MT_CHECK(image.size.pixels() > 0 && image.pixels.size() == static_cast<size_t>(3 * image.size.pixels()));
  jpeg_compress_struct library = {};
  jpeg_error_mgr errors = {};
  library.err = jpeg_std_error(&errors);  // ends the process on errors: only a lack of memory fails here
  jpeg_create_compress(&library);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&library, &bytes, &size);
  library.image_height = static_cast<JDIMENSION>(image.size.height);
  library.image_width = static_cast<JDIMENSION>(image.size.width);
  library.input_components = 3;
  library.in_color_space = JCS_RGB;
  jpeg_set_defaults(&library);
  jpeg_set_quality(&library, quality, TRUE);
  library.dct_method = JDCT_ISLOW;
  library.optimize_coding = TRUE;
  jpeg_start_compress(&library, TRUE);
  for (int y = 0; y < image.size.height; ++y) {
    auto* row = const_cast<uint8_t*>(image.pixels.data()) + size_t{3} * y * image.size.width;
    jpeg_write_scanlines(&library, &row, 1);
  }
  jpeg_finish_compress(&library);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&library);
  std::free(bytes);
  return file;
}

}  // namespace mtrun::datasets
