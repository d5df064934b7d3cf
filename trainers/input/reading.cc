#include "trainers/input/reading.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "datasets/images/resample.h"

namespace mtrun::trainers {
namespace {

using datasets::ImageBox;
using datasets::ImageSize;
using datasets::PackedSplit;
using datasets::RgbImage;

/// Words of the stream for each image: those that it uses, rounded up to blocks of four.
constexpr int kWords = (kCropDraws + kJitterDraws + 3) / 4 * 4;

std::array<double, kWords> Draws(const RandomStream& stream, int64_t number) {
  std::array<double, kWords> draws;
  for (int i = 0; i < kWords; ++i) draws[i] = stream.Uniform(static_cast<uint64_t>(number * kWords + i));
  return draws;
}

/// Returns the box to cut. Without a crop, an image stored as pixels is used whole, as in GatherImages.
ImageBox BoxOf(const PackedSplit& data, const Reading& reading, const ImageSize& size,
               const ImageSize& target, absl::Span<const double> draws) {
  if (reading.crop) return RandomCropBox(size, *reading.crop, draws.first(kCropDraws));
  if (!data.encoded()) return {.top = 0, .left = 0, .height = size.height, .width = size.width};
  return datasets::CentredBox(size, target);
}

/// Cuts a box of an image stored as pixels.
RgbImage CutPixels(const PackedSplit& data, int64_t id, const ImageBox& box, const ImageSize& target) {
  const absl::Span<const uint8_t> bytes = data.image(id);
  const RgbImage image{{data.height(), data.width()}, {bytes.begin(), bytes.end()}};
  return datasets::ResizeBilinear(image, datasets::InEighths(box), target);
}

absl::StatusOr<RgbImage> Cut(const PackedSplit& data, const Reading& reading, int64_t id, const ImageBox& box,
                             const ImageSize& target) {
  if (!data.encoded()) return CutPixels(data, id, box, target);
  auto image = datasets::DecodeBox(data.record(id), box, target, reading.decode, data.decode_limits(id));
  if (image.ok()) return image;
  return absl::DataLossError(absl::StrCat("image ", id,
                                          " of the data set: ", std::string(image.status().message()),
                                          " (mtdata verify finds damaged images)"));
}

}  // namespace

int SizeInEpoch(const ImageGrowth& growth, int last, int64_t epoch) {
  constexpr int kMultiple = 32;
  if (growth.from == 0 || epoch >= growth.end) return last;
  if (epoch < growth.first) return growth.from;
  const int64_t begin = growth.first - 1;
  const double part = static_cast<double>(epoch - begin) / static_cast<double>(growth.end - begin);
  const double size = growth.from + part * (last - growth.from);
  return std::max(kMultiple, static_cast<int>(std::nearbyint(size / kMultiple)) * kMultiple);
}

bool IsCut(const PackedSplit& data, const Reading& reading, int size) {
  return reading.crop || reading.growth.from > 0 || data.varies() || data.height() > size ||
         data.width() > size;
}

ImageSize ReadSize(const PackedSplit& data, const Reading& reading, int size) {
  if (IsCut(data, reading, size)) return {size, size};
  return {data.height(), data.width()};
}

absl::Status ReadImage(const PackedSplit& data, const Reading& reading, int64_t id, int size,
                       const RandomStream& stream, int64_t number, uint8_t* out) {
  const ImageSize target = ReadSize(data, reading, size), whole = data.image_size(id);
  const auto draws = Draws(stream, number);
  const auto bytes = static_cast<size_t>(3 * target.pixels());
  if (!data.encoded() && target == whole && !reading.crop) {
    const absl::Span<const uint8_t> image = data.image(id);
    std::copy(image.begin(), image.end(), out);
  } else {
    const absl::StatusOr<RgbImage> image =
        Cut(data, reading, id, BoxOf(data, reading, whole, target, draws), target);
    if (!image.ok()) return image.status();
    std::copy(image->pixels.begin(), image->pixels.end(), out);
  }
  if (reading.jitter.any())
    JitterColours(reading.jitter, absl::MakeConstSpan(draws).subspan(kCropDraws, kJitterDraws), {out, bytes});
  return absl::OkStatus();
}

absl::StatusOr<DecodeChoice> ParseDecodeChoice(std::string_view text) {
  if (text == "auto") return DecodeChoice::kAuto;
  if (text == "exact") return DecodeChoice::kExact;
  if (text == "fast") return DecodeChoice::kFast;
  return absl::InvalidArgumentError(absl::StrCat("unknown kind of decoding \"", std::string(text), "\""));
}

datasets::DecodeMode DecodeModeFor(DecodeChoice choice, const Reading& reading) {
  const bool fast = choice == DecodeChoice::kFast || (choice == DecodeChoice::kAuto && reading.changes());
  return fast ? datasets::DecodeMode::kFast : datasets::DecodeMode::kExact;
}

}  // namespace mtrun::trainers
