// Fast decodes of parts against whole decodes, for every sampling that a JPEG can have.
#include <random>

#include "absl/strings/str_cat.h"
#include "datasets/images/image_file.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/resample.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"
#include "tests/datasets/images/samplings.h"

namespace mtrun::datasets {
namespace {

using test::AllSamplings;
using test::Edges;
using test::Sampling;

/// Returns the whole image at a scale, without skipped rows or columns; empty if the scale does not occur.
RgbImage WholeAt(const std::string& file, const ImageSize& size, int eighths) {
  const ImageSize at_least{size.height * eighths / 8, size.width * eighths / 8};
  const auto part = DecodeJpegPart(file, {0, 0, size.height, size.width}, at_least);
  EXPECT_TRUE(part.ok()) << part.status();
  if (!part.ok() || part->eighths != eighths) return {};
  return part->image;
}

/// Checks a part of a file against its whole decode, pixel for pixel; returns whether there was one to check.
bool CheckPart(const std::string& file, const ImageSize& size, const ImageBox& box, const ImageSize& target) {
  const auto part = DecodeJpegPart(file, box, target);
  EXPECT_TRUE(part.ok()) << part.status();
  if (!part.ok()) return false;
  const RgbImage whole = part->eighths == 8 ? *DecodeJpeg(file) : WholeAt(file, size, part->eighths);
  if (whole.size.pixels() == 0) return false;
  const int top = box.top * part->eighths / 8, left = box.left * part->eighths / 8;
  const int bottom = ((box.top + box.height) * part->eighths + 7) / 8;
  const int right = ((box.left + box.width) * part->eighths + 7) / 8;
  const ImageBox shown{top, left, bottom - top, right - left};
  const ImageBox inner{top - part->top, left - part->left, shown.height, shown.width};
  EXPECT_TRUE(IsInside(inner, part->image.size));
  if (!IsInside(inner, part->image.size)) return false;
  EXPECT_EQ(test::Compare(Crop(part->image, inner), Crop(whole, shown)).largest, 0);
  return true;
}

// Regression: libjpeg-turbo before 3.0 reads beyond its rows if columns of a 4x2 or 2x4 JPEG are left out.
TEST(JpegSamplingTest, PartsEqualTheWholeImage) {
  const uint64_t seed = test::Seed();
  std::mt19937_64 random(seed);
  int checked = 0;
  for (const Sampling& sampling : AllSamplings()) {
    for (const bool progressive : {false, true}) {
      for (int round = 0; round < 3; ++round) {
        const ImageSize size{static_cast<int>(17 + random() % 150), static_cast<int>(17 + random() % 150)};
        const std::string file =
            test::EncodeSampled(Edges(size, random()), sampling, {.progressive = progressive});
        for (int boxes = 0; boxes < 6; ++boxes) {
          ImageBox box{.height = static_cast<int>(1 + random() % size.height),
                       .width = static_cast<int>(1 + random() % size.width)};
          box.top = static_cast<int>(random() % (size.height - box.height + 1));
          box.left = static_cast<int>(random() % (size.width - box.width + 1));
          const int shrink = 1 << random() % 4;
          const ImageSize target{std::max(1, box.height / shrink), std::max(1, box.width / shrink)};
          SCOPED_TRACE(absl::StrCat(sampling.across, "x", sampling.down, " ", sampling.colour_across, "x",
                                    sampling.colour_down, ", ", SizeText(size), ", box ", box.top, " ",
                                    box.left, " ", box.height, " ", box.width, ", 1/", shrink, ", seed ",
                                    seed));
          checked += CheckPart(file, size, box, target);
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(checked, 500);
}

}  // namespace
}  // namespace mtrun::datasets
