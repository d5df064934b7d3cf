#include "datasets/images/image_file.h"

#include <optional>
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

/// Returns the error for a file that is neither JPEG nor PNG.
absl::Status NotTaken(std::string_view file) {
  if (file.empty()) return absl::DataLossError("empty file");
  const std::string_view foreign = ForeignKind(file);
  const ImageKind kind = FindImageKind(file);
  if (kind == ImageKind::kNone && foreign.empty())
    return absl::InvalidArgumentError("not a JPEG or PNG image");
  const std::string name = foreign.empty() ? absl::StrCat("a ", ImageKindName(kind)) : std::string(foreign);
  return absl::InvalidArgumentError(
      absl::StrCat(name, " file, which is not supported; convert it to JPEG or PNG"));
}

}  // namespace

ImageKind FindImageKind(std::string_view file) {
  if (IsJpeg(file)) return ImageKind::kJpeg;
  if (IsPng(file)) return ImageKind::kPng;
  if (IsNetpbm(file)) return ImageKind::kNetpbm;
  if (file.size() < 12) return ImageKind::kNone;
  if (IsWebp(file)) return ImageKind::kWebp;
  if (IsBmp(file)) return ImageKind::kBmp;
  return IsTiff(file) ? ImageKind::kTiff : ImageKind::kNone;
}

const char* ImageKindName(ImageKind kind) {
  switch (kind) {
    case ImageKind::kJpeg:
      return "JPEG";
    case ImageKind::kPng:
      return "PNG";
    case ImageKind::kWebp:
      return "WebP";
    case ImageKind::kBmp:
      return "BMP";
    case ImageKind::kTiff:
      return "TIFF";
    case ImageKind::kNetpbm:
      return "PBM, PGM or PPM";
    case ImageKind::kNone:
      break;
  }
  return "unknown";
}

absl::StatusOr<RgbImage> DecodeImage(std::string_view file, const DecodeLimits& limits) {
  if (IsJpeg(file)) return DecodeJpeg(file, limits);
  if (IsPng(file)) return DecodePng(file, limits);
  return NotTaken(file);
}

absl::StatusOr<ImageSize> FindImageSize(std::string_view file) {
  if (IsJpeg(file)) return JpegSize(file);
  if (IsPng(file)) return PngSize(file);
  return NotTaken(file);
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
