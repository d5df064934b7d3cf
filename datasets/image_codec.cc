#include "datasets/image_codec.h"

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace mtrun::datasets {
namespace {

constexpr int kMaxSide = 65535;

uint8_t Byte(std::string_view file, size_t i) { return static_cast<uint8_t>(file[i]); }

bool IsJpeg(std::string_view file) { return file.substr(0, 3) == "\xFF\xD8\xFF"; }
bool IsPng(std::string_view file) { return file.substr(0, 8) == std::string_view("\x89PNG\r\n\x1A\n", 8); }

/// A marker that no length follows: RST0..RST7, TEM.
bool StandsAlone(uint8_t marker) { return (marker >= 0xD0 && marker <= 0xD7) || marker == 0x01; }

/// The position of the next marker after entropy-coded data, or npos.
size_t SkipScan(std::string_view file, size_t at) {
  while ((at = file.find('\xFF', at)) != std::string_view::npos && at + 1 < file.size()) {
    const uint8_t next = Byte(file, at + 1);
    if (next != 0x00 && next != 0xFF && !StandsAlone(next)) return at;
    at += next == 0xFF ? 1 : 2;
  }
  return std::string_view::npos;
}

absl::StatusOr<cv::Mat> DecodeMat(std::string_view file) {
  try {
    const cv::Mat raw(1, static_cast<int>(file.size()), CV_8UC1, const_cast<char*>(file.data()));
    return cv::imdecode(raw, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("cannot be decoded: ", error.what()));
  }
}

}  // namespace

std::string SizeText(const ImageSize& size) { return absl::StrCat(size.height, "x", size.width); }

absl::StatusOr<ImageSize> ParseImageSize(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  ImageSize size;
  const bool ok = parts.size() <= 2 && absl::SimpleAtoi(parts.front(), &size.height) &&
                  absl::SimpleAtoi(parts.back(), &size.width);
  const auto fits = [](int side) { return side >= 1 && side <= kMaxSide; };
  if (ok && fits(size.height) && fits(size.width)) return size;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is not an image size: give HEIGHTxWIDTH, as in 32x32, each from 1 to ", kMaxSide));
}

bool JpegIsComplete(std::string_view file) {
  size_t at = 2;
  const size_t last = file.empty() ? 0 : file.size() - 1;  // not at + 1: SkipScan may return npos
  while (at < last) {
    if (Byte(file, at) != 0xFF) return false;
    const uint8_t marker = Byte(file, at + 1);
    if (marker == 0xD9) return true;
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    at += 2;
    if (StandsAlone(marker)) continue;
    if (at >= last) return false;
    at += size_t{Byte(file, at)} << 8 | Byte(file, at + 1);
    if (marker == 0xDA) at = SkipScan(file, at);  // start of scan
  }
  return false;
}

absl::StatusOr<RgbImage> DecodeImage(std::string_view file) {
  if (file.empty()) return absl::DataLossError("empty file");
  if (!IsJpeg(file) && !IsPng(file)) return absl::InvalidArgumentError("not a JPEG or PNG image");
  if (file.size() > INT32_MAX) return absl::InvalidArgumentError("larger than 2 GiB");
  if (IsJpeg(file) && !JpegIsComplete(file)) return absl::DataLossError("truncated JPEG");
  MT_ASSIGN_OR_RETURN(const cv::Mat bgr, DecodeMat(file));
  if (bgr.empty())
    return absl::DataLossError(absl::StrCat("truncated or damaged ", IsPng(file) ? "PNG" : "JPEG"));
  if (bgr.rows > kMaxSide || bgr.cols > kMaxSide)
    return absl::InvalidArgumentError("a side is longer than 65535");
  RgbImage image{.size = {bgr.rows, bgr.cols}, .pixels = std::vector<uint8_t>(bgr.total() * 3)};
  cv::Mat rgb(bgr.rows, bgr.cols, CV_8UC3, image.pixels.data());
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  return image;
}

RgbImage ResizeImage(absl::Span<const uint8_t> pixels, const ImageSize& size, const ImageSize& target) {
  MT_CHECK(pixels.size() == size_t{3} * size.height * size.width) << SizeText(size);
  RgbImage image{.size = target, .pixels = std::vector<uint8_t>(size_t{3} * target.height * target.width)};
  const cv::Mat from(size.height, size.width, CV_8UC3, const_cast<uint8_t*>(pixels.data()));
  cv::Mat to(target.height, target.width, CV_8UC3, image.pixels.data());
  const bool shrinks = target.height <= size.height && target.width <= size.width;
  cv::resize(from, to, to.size(), 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  return image;
}

}  // namespace mtrun::datasets
