#include "datasets/import/image_rules.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/images/exif.h"
#include "datasets/images/image_file.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"
#include "datasets/images/resample.h"
#include "datasets/import/opencv_image.h"

namespace mtrun::datasets {
namespace {

/// Decodes, and turns if the rules say so; sets `oriented` to whether the file has an orientation that is not
/// upright.
absl::StatusOr<RgbImage> DecodeUpright(std::string_view file, const ImageRules& rules, bool* oriented) {
  MT_ASSIGN_OR_RETURN(RgbImage image, DecodeSourceImage(file, rules.limits));
  const int orientation = ExifOrientation(file);
  *oriented = orientation != 1;
  return *oriented && rules.exif ? Upright(image, orientation) : std::move(image);
}

}  // namespace

std::string ImageRules::Describe() const {
  return absl::StrCat("stretch ", stretch ? SizeText(*stretch) : "no", ", centre ",
                      centre ? SizeText(*centre) : "no", ", short side ", short_side, ", max side ", max_side,
                      ", quality ", quality, exif ? ", exif" : "", ", at most ", limits.max_pixels,
                      " pixels");
}

absl::Status CheckRules(const ImageRules& rules) {
  const bool sides = rules.short_side > 0 || rules.max_side > 0;
  if (int{rules.stretch.has_value()} + int{rules.centre.has_value()} + int{sides} <= 1)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "these flags exclude each other: --resize (stretches), --center_crop (cuts out the middle), "
      "--short_side and --max_side (keep the shape)");
}

RgbImage FitImage(RgbImage image, const ImageRules& rules) {
  if (rules.stretch) return ResizeImage(image, *rules.stretch);
  if (!rules.centre) {
    const ImageSize size = FitInto(image.size, rules.short_side, rules.max_side);
    return size == image.size ? std::move(image) : AverageArea(image, size);
  }
  const ImageBox box = CentredBox(image.size, *rules.centre);
  if (box == ImageBox{0, 0, image.size.height, image.size.width}) return ResizeImage(image, *rules.centre);
  return ResizeImage(Crop(image, box), *rules.centre);
}

absl::StatusOr<RgbImage> DecodeFitted(std::string_view file, const ImageRules& rules, bool* oriented) {
  bool ignored = false;
  MT_ASSIGN_OR_RETURN(RgbImage image, DecodeUpright(file, rules, oriented == nullptr ? &ignored : oriented));
  return FitImage(std::move(image), rules);
}

absl::StatusOr<Record> MakeRecord(std::string file, const ImageRules& rules) {
  bool oriented = false;
  MT_ASSIGN_OR_RETURN(RgbImage image, DecodeUpright(file, rules, &oriented));
  const bool turned = oriented && rules.exif;
  const ImageSize before = image.size;
  const ImageKind kind = FindImageKind(file);
  image = FitImage(std::move(image), rules);
  const ImageSize size = image.size;
  const bool packs = kind == ImageKind::kJpeg || kind == ImageKind::kPng;
  if (packs && !turned && size == before) return Record{std::move(file), size, oriented};
  const bool lossless = kind != ImageKind::kJpeg && kind != ImageKind::kWebp;
  return Record{lossless ? EncodePng(image) : EncodeJpeg(image, rules.quality), size, oriented};
}

}  // namespace mtrun::datasets
