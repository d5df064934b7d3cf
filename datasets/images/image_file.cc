#include "datasets/images/image_file.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/images/bmp.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/jpeg_crop.h"
#include "datasets/images/png.h"
#include "datasets/images/resample.h"
#include "datasets/images/tiff.h"
#include "datasets/images/webp.h"

namespace mtrun::datasets {
namespace {

bool IsHeif(std::string_view file) {
  if (file.substr(4, 4) != "ftyp") return false;
  const std::string_view brand = file.substr(8, 4);
  return brand == "heic" || brand == "heix" || brand == "hevc" || brand == "mif1" || brand == "msf1" ||
         brand == "avif" || brand == "avis";
}

/// Returns the error for a file that is neither JPEG nor PNG.
absl::Status NotTaken(std::string_view file) {
  if (file.empty()) return absl::DataLossError("empty file");
  const ImageKind kind = FindImageKind(file);
  if (kind == ImageKind::kNone) return absl::InvalidArgumentError("not a JPEG or PNG image");
  return absl::InvalidArgumentError(
      absl::StrCat("a ", ImageKindName(kind), " file, which is not supported; convert it to JPEG or PNG"));
}

}  // namespace

ImageKind FindImageKind(std::string_view file) {
  if (IsJpeg(file)) return ImageKind::kJpeg;
  if (IsPng(file)) return ImageKind::kPng;
  if (file.size() < 12) return ImageKind::kNone;
  if (IsWebp(file)) return ImageKind::kWebp;
  if (IsBmp(file)) return ImageKind::kBmp;
  if (IsTiff(file)) return ImageKind::kTiff;
  if (file.substr(0, 4) == "GIF8") return ImageKind::kGif;
  return IsHeif(file) ? ImageKind::kHeif : ImageKind::kNone;
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
    case ImageKind::kGif:
      return "GIF";
    case ImageKind::kHeif:
      return "HEIC or AVIF";
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
