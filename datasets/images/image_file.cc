#include "datasets/images/image_file.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/images/bmp.h"
#include "datasets/images/foreign_kind.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/jpeg_crop.h"
#include "datasets/images/netpbm.h"
#include "datasets/images/png.h"
#include "datasets/images/resample.h"
#include "datasets/images/tiff.h"
#include "datasets/images/webp.h"

namespace mtrun::datasets {
namespace {

/// A format and its reader.
struct ImageFormat {
  ImageKind kind;
  const char* name;
  size_t least_bytes;  // shorter files are of no kind
  bool (*is)(std::string_view file);
  absl::StatusOr<ImageSize> (*size)(std::string_view file);
  absl::StatusOr<RgbImage> (*decode)(std::string_view file, const DecodeLimits& limits);
};
constexpr ImageFormat kFormats[] = {
    {ImageKind::kJpeg, "JPEG", 0, IsJpeg, JpegSize, DecodeJpeg},
    {ImageKind::kPng, "PNG", 0, IsPng, PngSize, DecodePng},
    {ImageKind::kNetpbm, "PBM, PGM or PPM", 0, IsNetpbm, NetpbmSize, DecodeNetpbm},
    {ImageKind::kWebp, "WebP", 12, IsWebp, WebpSize, DecodeWebp},
    {ImageKind::kBmp, "BMP", 12, IsBmp, BmpSize, DecodeBmp},
    {ImageKind::kTiff, "TIFF", 12, IsTiff, TiffSize, DecodeTiff},
};

/// Returns nullptr if the file is of none.
const ImageFormat* FindFormat(std::string_view file) {
  for (const ImageFormat& format : kFormats) {
    if (file.size() >= format.least_bytes && format.is(file)) return &format;
  }
  return nullptr;
}

/// Returns the error for a file that is neither JPEG nor PNG.
absl::Status NotTaken(std::string_view file) {
  if (file.empty()) return absl::DataLossError("empty file");
  const std::string_view foreign = ForeignKind(file);
  const ImageFormat* const format = FindFormat(file);
  if (format == nullptr && foreign.empty()) return absl::InvalidArgumentError("not a JPEG or PNG image");
  const std::string name = foreign.empty() ? absl::StrCat("a ", format->name) : std::string(foreign);
  return absl::InvalidArgumentError(
      absl::StrCat(name, " file, which is not supported; convert it to JPEG or PNG"));
}

}  // namespace

ImageKind FindImageKind(std::string_view file) {
  const ImageFormat* const format = FindFormat(file);
  return format == nullptr ? ImageKind::kNone : format->kind;
}

absl::StatusOr<RgbImage> DecodeImage(std::string_view file, const DecodeLimits& limits) {
  if (IsJpeg(file)) return DecodeJpeg(file, limits);
  if (IsPng(file)) return DecodePng(file, limits);
  return NotTaken(file);
}

absl::StatusOr<RgbImage> DecodeAnyImage(std::string_view file, const DecodeLimits& limits) {
  const ImageFormat* const format = FindFormat(file);
  return format == nullptr ? NotTaken(file) : format->decode(file, limits);
}

absl::StatusOr<ImageSize> FindAnyImageSize(std::string_view file) {
  const ImageFormat* const format = FindFormat(file);
  return format == nullptr ? NotTaken(file) : format->size(file);
}

absl::StatusOr<RgbImage> DecodeBox(std::string_view file, const ImageBox& box, const ImageSize& target,
                                   DecodeMode mode, const DecodeLimits& limits) {
  if (mode == DecodeMode::kFast && IsJpeg(file)) {
    if (std::optional<RgbImage> image = DecodeJpegCrop(file, box, target, limits)) return *std::move(image);
    MT_ASSIGN_OR_RETURN(const JpegPart part, DecodeJpegPart(file, box, target, limits));
    EighthsBox scaled{.top = int64_t{box.top} * part.eighths - int64_t{8} * part.top,
                      .left = int64_t{box.left} * part.eighths - int64_t{8} * part.left,
                      .height = int64_t{box.height} * part.eighths,
                      .width = int64_t{box.width} * part.eighths};
    return ResizeBilinear(part.image, scaled, target);
  }
  MT_ASSIGN_OR_RETURN(const RgbImage image, DecodeImage(file, limits));
  if (!IsInside(box, image.size))
    return absl::InvalidArgumentError(absl::StrCat("the box ends outside ", SizeText(image.size), " pixels"));
  return ResizeBilinear(image, InEighths(box), target);
}

}  // namespace mtrun::datasets
