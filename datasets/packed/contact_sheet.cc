#include "datasets/packed/contact_sheet.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "datasets/images/image_file.h"
#include "datasets/images/resample.h"

namespace mtrun::datasets {
namespace {

/// Neither black nor white, so that the edges of most images are visible.
constexpr uint8_t kBackground = 64;

/// Copies `image` to the middle of the cell whose upper left pixel is (top, left).
void PutImage(const RgbImage& image, int top, int left, RgbImage& picture) {
  top += (kCellSide - image.size.height) / 2;
  left += (kCellSide - image.size.width) / 2;
  const size_t row = size_t{3} * image.size.width;
  for (int y = 0; y < image.size.height; ++y) {
    std::copy_n(image.pixels.begin() + static_cast<std::ptrdiff_t>(row * y), row,
                picture.pixels.begin() +
                    3 * (std::ptrdiff_t{top + y} * picture.size.width + static_cast<std::ptrdiff_t>(left)));
  }
}

}  // namespace

std::vector<int64_t> SpreadOver(int64_t size, int64_t count) {
  count = std::min(size, count);
  std::vector<int64_t> numbers;
  // i * size / count, computed so that it cannot overflow.
  for (int64_t i = 0; i < count; ++i) numbers.push_back(size / count * i + size % count * i / count);
  return numbers;
}

ImageSize FitIntoCell(const ImageSize& size) {
  return ScaledSize(size, kCellSide, std::max(size.height, size.width));
}

absl::StatusOr<RgbImage> FittedImage(const PackedSplit& split, int64_t i) {
  const ImageSize size = split.image_size(i), target = FitIntoCell(size);
  if (!split.encoded()) {
    const absl::Span<const uint8_t> pixels = split.image(i);
    return ResizeImage({size, {pixels.begin(), pixels.end()}}, target);
  }
  auto image = DecodeBox(split.record(i), {0, 0, size.height, size.width}, target, DecodeMode::kFast,
                         split.decode_limits(i));
  if (!image.ok()) return Annotate(absl::DataLossError(image.status().message()), absl::StrCat("image ", i));
  return image;
}

absl::StatusOr<ContactSheet> MakeContactSheet(const PackedSplit& split, int64_t count) {
  MT_CHECK(count >= 1 && count <= kMaxCells) << count;
  ContactSheet sheet{.images = SpreadOver(split.size(), count)};
  const auto cells = static_cast<int>(sheet.images.size());
  if (cells == 0) return absl::InvalidArgumentError("the split has no images");
  sheet.columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(cells))));
  const int rows = (cells + sheet.columns - 1) / sheet.columns;
  constexpr int kPitch = kCellSide + kCellBorder;
  sheet.picture = MakeImage({rows * kPitch + kCellBorder, sheet.columns * kPitch + kCellBorder});
  std::fill(sheet.picture.pixels.begin(), sheet.picture.pixels.end(), kBackground);
  for (int cell = 0; cell < cells; ++cell) {
    MT_ASSIGN_OR_RETURN(const RgbImage image, FittedImage(split, sheet.images[static_cast<size_t>(cell)]));
    PutImage(image, cell / sheet.columns * kPitch + kCellBorder, cell % sheet.columns * kPitch + kCellBorder,
             sheet.picture);
  }
  return sheet;
}

std::string CellTable(const ContactSheet& sheet, const PackedSplit& split) {
  std::string text = absl::StrFormat("%4s%8s%14s  %s\n", "row", "column", "image", "class");
  for (size_t cell = 0; cell < sheet.images.size(); ++cell) {
    const size_t columns = static_cast<size_t>(sheet.columns);
    const int64_t image = sheet.images[cell];
    absl::StrAppendFormat(&text, "%4d%8d%14d  %s\n", cell / columns + 1, cell % columns + 1, image,
                          split.class_names()[static_cast<size_t>(split.label(image))]);
  }
  return text;
}

}  // namespace mtrun::datasets
