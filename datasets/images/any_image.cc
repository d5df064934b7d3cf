#include "datasets/images/any_image.h"

#include "datasets/images/bmp.h"
#include "datasets/images/image_file.h"
#include "datasets/images/netpbm.h"
#include "datasets/images/tiff.h"
#include "datasets/images/webp.h"

namespace mtrun::datasets {

absl::StatusOr<RgbImage> DecodeAnyImage(std::string_view file, const DecodeLimits& limits) {
  switch (FindImageKind(file)) {
    case ImageKind::kBmp:
      return DecodeBmp(file, limits);
    case ImageKind::kTiff:
      return DecodeTiff(file, limits);
    case ImageKind::kWebp:
      return DecodeWebp(file, limits);
    case ImageKind::kNetpbm:
      return DecodeNetpbm(file, limits);
    default:
      return DecodeImage(file, limits);
  }
}

absl::StatusOr<ImageSize> FindAnyImageSize(std::string_view file) {
  switch (FindImageKind(file)) {
    case ImageKind::kBmp:
      return BmpSize(file);
    case ImageKind::kTiff:
      return TiffSize(file);
    case ImageKind::kWebp:
      return WebpSize(file);
    case ImageKind::kNetpbm:
      return NetpbmSize(file);
    default:
      return FindImageSize(file);
  }
}

}  // namespace mtrun::datasets
