#include "datasets/import/opencv_image.h"

#include "base/status_macros.h"
#include "datasets/images/bmp.h"
#include "datasets/images/byte_number.h"
#include "datasets/images/image_file.h"

#ifdef MT_OPENCV
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

namespace mtrun::datasets {

#ifdef MT_OPENCV

namespace {

bool IsStillWebp(std::string_view file) {
  constexpr uint64_t kAnimated = 2;
  return NumberAt(file, 4, 4, true) + 8 <= file.size() &&
         (file.substr(12, 4) != "VP8X" || (NumberAt(file, 20, 1, true) & kAnimated) == 0);
}

/// Returns true for the header of Windows 3, 24 bits, no compression, and all rows.
bool IsPlainBmp(std::string_view file) {
  if (NumberAt(file, 14, 4, true) != 40 || NumberAt(file, 28, 2, true) != 24 ||
      NumberAt(file, 30, 4, true) != 0)
    return false;
  const auto size = BmpSize(file);
  const uint64_t row = size.ok() ? (3 * uint64_t(size->width) + 3) / 4 * 4 : 0;
  return size.ok() && NumberAt(file, 10, 4, true) + row * uint64_t(size->height) <= file.size();
}

absl::Status NotDecoded() { return absl::DataLossError("OpenCV cannot decode it"); }

/// Decodes without a word on standard error.
absl::StatusOr<cv::Mat> DecodeMat(std::string_view file) {
  static const auto silent = cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  (void)silent;
  try {
    const cv::Mat raw(1, static_cast<int>(file.size()), CV_8UC1, const_cast<char*>(file.data()));
    return cv::imdecode(raw, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const std::exception&) {
    return NotDecoded();
  }
}

}  // namespace

bool IsForOpenCv(std::string_view file) {
  if (file.size() > INT32_MAX) return false;
  switch (FindImageKind(file)) {
    case ImageKind::kWebp:
      return IsStillWebp(file);
    case ImageKind::kBmp:
      return IsPlainBmp(file);
    default:
      return false;
  }
}

absl::StatusOr<RgbImage> DecodeByOpenCv(std::string_view file, const DecodeLimits& limits) {
  MT_ASSIGN_OR_RETURN(const ImageSize size, FindAnyImageSize(file));
  MT_RETURN_IF_ERROR(CheckLimits(size.height, size.width, limits));
  MT_ASSIGN_OR_RETURN(const cv::Mat bgr, DecodeMat(file));
  if (bgr.rows != size.height || bgr.cols != size.width) return NotDecoded();
  RgbImage image = MakeImage(size);
  cv::Mat rgb(size.height, size.width, CV_8UC3, image.pixels.data());
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  return image;
}

#else

bool IsForOpenCv(std::string_view) { return false; }

absl::StatusOr<RgbImage> DecodeByOpenCv(std::string_view, const DecodeLimits&) {
  return absl::DataLossError("this build has no OpenCV");
}

#endif

absl::StatusOr<RgbImage> DecodeSourceImage(std::string_view file, const DecodeLimits& limits) {
  if (IsForOpenCv(file)) {
    absl::StatusOr<RgbImage> image = DecodeByOpenCv(file, limits);
    if (image.ok()) return image;
  }
  return DecodeAnyImage(file, limits);
}

}  // namespace mtrun::datasets
