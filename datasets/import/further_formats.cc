#include "datasets/import/further_formats.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/images/image_file.h"

#ifdef MT_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace mtrun::datasets {
namespace {

bool IsFurther(ImageKind kind) {
  return kind == ImageKind::kWebp || kind == ImageKind::kBmp || kind == ImageKind::kTiff;
}

/// Reads `count` bytes as a number; 0 if they are beyond the end.
uint64_t Number(std::string_view bytes, size_t at, size_t count, bool little_endian = true) {
  if (at > bytes.size() || count > bytes.size() - at) return 0;
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i)
    value = value << 8 | static_cast<uint8_t>(bytes[little_endian ? at + count - 1 - i : at + i]);
  return value;
}

struct Claim {
  uint64_t height = 0, width = 0;
};

/// The BMP header since Windows 3 has 32-bit sides, and a negative height if rows start at the top; the OS/2
/// header has 16-bit sides.
Claim BmpClaim(std::string_view file) {
  if (Number(file, 14, 4) == 12) return {Number(file, 20, 2), Number(file, 18, 2)};
  const auto height = static_cast<int32_t>(Number(file, 22, 4));
  return {static_cast<uint64_t>(std::abs(int64_t{height})), Number(file, 18, 4)};
}

/// Reads a lossy, a lossless or an extended first chunk
/// (https://developers.google.com/speed/webp/docs/riff_container).
Claim WebpClaim(std::string_view file) {
  const std::string_view chunk = file.substr(12, 4);
  if (chunk == "VP8 ") return {Number(file, 28, 2) & 0x3FFF, Number(file, 26, 2) & 0x3FFF};
  if (chunk == "VP8X") return {Number(file, 27, 3) + 1, Number(file, 24, 3) + 1};
  const uint64_t bits = Number(file, 21, 4);
  return {(bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1};
}

/// Reads tags 256 and 257 of the first directory, as 16 or 32 bits.
Claim TiffClaim(std::string_view file) {
  const bool little = file[0] == 'I';
  const size_t directory = Number(file, 4, 4, little);
  const size_t entries = Number(file, directory, 2, little);
  Claim claim;
  for (size_t i = 0; i < entries && directory + 2 + 12 * i < file.size(); ++i) {
    const size_t entry = directory + 2 + 12 * i;
    const uint64_t tag = Number(file, entry, 2, little);
    const uint64_t value = Number(file, entry + 8, Number(file, entry + 2, 2, little) == 3 ? 2 : 4, little);
    if (tag == 256) claim.width = value;
    if (tag == 257) claim.height = value;
  }
  return claim;
}

absl::StatusOr<ImageSize> ClaimedSize(std::string_view file, ImageKind kind, const DecodeLimits& limits) {
  const Claim claim = kind == ImageKind::kBmp    ? BmpClaim(file)
                      : kind == ImageKind::kWebp ? WebpClaim(file)
                                                 : TiffClaim(file);
  if (claim.height > kMaxImageSide || claim.width > kMaxImageSide)
    return absl::InvalidArgumentError(absl::StrCat("a side is longer than ", kMaxImageSide));
  MT_RETURN_IF_ERROR(
      CheckLimits(static_cast<int64_t>(claim.height), static_cast<int64_t>(claim.width), limits));
  return ImageSize{static_cast<int>(claim.height), static_cast<int>(claim.width)};
}

#ifdef MT_OPENCV

absl::StatusOr<cv::Mat> DecodeMat(std::string_view file) {
  try {
    const cv::Mat raw(1, static_cast<int>(file.size()), CV_8UC1, const_cast<char*>(file.data()));
    return cv::imdecode(raw, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("cannot be decoded: ", error.what()));
  }
}

absl::StatusOr<RgbImage> DecodeFurther(std::string_view file, ImageKind kind, const DecodeLimits& limits) {
  if (file.size() > INT32_MAX) return absl::InvalidArgumentError("larger than 2 GiB");
  MT_ASSIGN_OR_RETURN(const ImageSize size, ClaimedSize(file, kind, limits));
  MT_ASSIGN_OR_RETURN(const cv::Mat bgr, DecodeMat(file));
  if (bgr.rows != size.height || bgr.cols != size.width)
    return absl::DataLossError(absl::StrCat("truncated or damaged ", ImageKindName(kind)));
  RgbImage image = MakeImage(size);
  cv::Mat rgb(size.height, size.width, CV_8UC3, image.pixels.data());
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  return image;
}

#else

absl::StatusOr<RgbImage> DecodeFurther(std::string_view file, ImageKind, const DecodeLimits& limits) {
  return DecodeImage(file, limits);  // returns an error that names the format
}

#endif

}  // namespace

#ifdef MT_OPENCV
bool ReadsFurtherFormats() { return true; }
#else
bool ReadsFurtherFormats() { return false; }
#endif

absl::StatusOr<RgbImage> DecodeAnyImage(std::string_view file, const DecodeLimits& limits) {
  const ImageKind kind = FindImageKind(file);
  return IsFurther(kind) ? DecodeFurther(file, kind, limits) : DecodeImage(file, limits);
}

absl::StatusOr<ImageSize> FindAnyImageSize(std::string_view file) {
  const ImageKind kind = FindImageKind(file);
  if (!IsFurther(kind) || !ReadsFurtherFormats()) return FindImageSize(file);
  return ClaimedSize(file, kind, {.max_pixels = INT64_MAX});
}

}  // namespace mtrun::datasets
