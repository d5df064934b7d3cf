// Image files, as decoded by mtdata and the trainers.
#include <algorithm>

#include "datasets/images/exif.h"
#include "datasets/images/image_file.h"
#include "datasets/images/resample.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {

using namespace datasets;  // NOLINT: the code under test

void FuzzImages(std::string_view bytes) {
  constexpr DecodeLimits kLimits{.max_pixels = 1 << 14};
  const int orientation = ExifOrientation(bytes);
  MT_HOLDS(orientation >= 1 && orientation <= 8) << orientation;
  const auto size = FindAnyImageSize(bytes);
  const auto image = DecodeAnyImage(bytes, kLimits);
  if (!image.ok()) {
    MT_HOLDS(!image.status().message().empty());
  } else {
    MT_HOLDS(size.ok() && image->size == *size) << size.status();
    MT_HOLDS(image->pixels.size() == static_cast<size_t>(3 * size->pixels()));
    MT_HOLDS(Upright(*image, orientation).pixels.size() == image->pixels.size());
  }
  if (!size.ok()) return;
  const ImageBox box{size->height / 3, size->width / 4, std::max(1, size->height / 2),
                     std::max(1, size->width / 2)};
  const auto part = DecodeBox(bytes, box, {5, 7}, DecodeMode::kFast, kLimits);
  MT_HOLDS(!part.ok() || part->pixels.size() == 105) << part.status();
}

}  // namespace mtrun::fuzz
