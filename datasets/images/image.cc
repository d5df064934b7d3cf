#include "datasets/images/image.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::datasets {

std::string SizeText(const ImageSize& size) { return absl::StrCat(size.height, "x", size.width); }

absl::StatusOr<ImageSize> ParseImageSize(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  ImageSize size;
  const bool ok = parts.size() <= 2 && absl::SimpleAtoi(parts.front(), &size.height) &&
                  absl::SimpleAtoi(parts.back(), &size.width);
  const auto fits = [](int side) { return side >= 1 && side <= kMaxImageSide; };
  if (ok && fits(size.height) && fits(size.width)) return size;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is not an image size: give HEIGHTxWIDTH, for example 32x32, each from 1 to ",
      kMaxImageSide));
}

bool IsInside(const ImageBox& box, const ImageSize& size) {
  return box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
         box.height <= size.height - box.top && box.width <= size.width - box.left;
}

ImageBox CentredBox(const ImageSize& size, const ImageSize& shape) {
  MT_CHECK(size.pixels() > 0 && shape.pixels() > 0) << SizeText(size) << " " << SizeText(shape);
  // Uses the full width or the full height, whichever fits; the other side is rounded half up.
  ImageBox box{.top = 0, .left = 0, .height = size.height, .width = size.width};
  const auto share = [](int64_t side, int64_t of, int64_t to) {
    return static_cast<int>(std::max<int64_t>(1, (2 * side * of + to) / (2 * to)));
  };
  if (int64_t{size.height} * shape.width > int64_t{size.width} * shape.height) {
    box.height = std::min(size.height, share(size.width, shape.height, shape.width));
  } else {
    box.width = std::min(size.width, share(size.height, shape.width, shape.height));
  }
  box.top = (size.height - box.height) / 2;
  box.left = (size.width - box.width) / 2;
  return box;
}

RgbImage MakeImage(const ImageSize& size) {
  return {.size = size, .pixels = std::vector<uint8_t>(static_cast<size_t>(3 * size.pixels()))};
}

RgbImage Crop(const RgbImage& image, const ImageBox& box) {
  MT_CHECK(IsInside(box, image.size)) << SizeText(image.size);
  RgbImage out = MakeImage({box.height, box.width});
  for (int y = 0; y < box.height; ++y) {
    std::copy_n(image.pixels.data() + size_t{3} * (size_t(box.top + y) * image.size.width + box.left),
                size_t{3} * box.width, out.pixels.data() + size_t{3} * y * box.width);
  }
  return out;
}

absl::Status CheckLimits(int64_t height, int64_t width, const DecodeLimits& limits) {
  if (height < 1 || width < 1) return absl::DataLossError("it has no pixels");
  if (height > kMaxImageSide || width > kMaxImageSide)
    return absl::InvalidArgumentError(absl::StrCat("a side is longer than ", kMaxImageSide));
  if (height * width <= limits.max_pixels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(height, "x", width, " exceeds the limit of ",
                                                 limits.max_pixels, " pixels (", View(limits.source), ")"));
}

}  // namespace mtrun::datasets
