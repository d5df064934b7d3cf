#include "trainers/input/random_crop.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using datasets::ImageBox;
using datasets::ImageSize;
using CropDraws = std::array<double, kCropDraws>;

/// Returns multiples of the golden ratio, which are evenly spread and the same in any language.
CropDraws Spread(int start) {
  CropDraws draws;
  for (int k = 0; k < kCropDraws; ++k) draws[k] = std::fmod((start + 1) * 0.6180339887498949 * (k + 1), 1.0);
  return draws;
}

CropDraws All(double value) {
  CropDraws draws;
  draws.fill(value);
  return draws;
}

// Expected boxes: torchvision's rule for these draws, computed in Python.
TEST(RandomCropBox, MatchesTorchvisionForTheSameDraws) {
  const std::pair<ImageSize, ImageBox> cases[] = {
      {{375, 500}, {206, 187, 165, 186}}, {{500, 375}, {251, 27, 238, 234}}, {{32, 32}, {4, 0, 28, 32}},
      {{100, 1000}, {0, 433, 100, 133}},  {{1000, 60}, {460, 0, 80, 60}},    {{1, 1}, {0, 0, 1, 1}},
      {{480, 640}, {131, 50, 327, 357}},
  };
  for (int i = 0; i < 7; ++i) EXPECT_EQ(RandomCropBox(cases[i].first, {}, Spread(i)), cases[i].second) << i;
}

TEST(RandomCropBox, FallsBackToTheCentreIfNothingFits) {
  EXPECT_EQ(RandomCropBox({10, 1000}, {}, All(0.999)), (ImageBox{0, 493, 10, 13}));
  EXPECT_EQ(RandomCropBox({1000, 10}, {}, All(0.999)), (ImageBox{493, 0, 13, 10}));
}

TEST(RandomCropBox, IsInsideTheImageForAllDraws) {
  for (const ImageSize size : {ImageSize{1, 1}, {1, 9}, {7, 3}, {64, 64}, {333, 500}, {65535, 2}}) {
    for (int start = 0; start < 200; ++start) {
      const ImageBox box = RandomCropBox(size, {.min_area = 0.01}, Spread(start));
      ASSERT_TRUE(datasets::IsInside(box, size)) << datasets::SizeText(size) << " " << start;
    }
    ASSERT_TRUE(datasets::IsInside(RandomCropBox(size, {}, All(0)), size));
    ASSERT_TRUE(datasets::IsInside(RandomCropBox(size, {}, All(std::nextafter(1, 0))), size));
  }
}

TEST(RandomCropBox, AreasAndRatiosKeepTheirBounds) {
  const RandomCrop crop{.min_area = 0.25};
  double least = 1, most = 0;
  for (int start = 0; start < 500; ++start) {
    const ImageBox box = RandomCropBox({400, 500}, crop, Spread(start));
    const double area = box.height * box.width / 200000.0,
                 ratio = static_cast<double>(box.width) / box.height;
    EXPECT_GE(area, 0.24);
    EXPECT_GT(ratio, 0.74);
    EXPECT_LT(ratio, 1.35);
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_LT(least, 0.3);
  EXPECT_GT(most, 0.9);
}

TEST(CentreSquare, IsAPartOfTheShorterSide) {
  EXPECT_EQ(CentreSquare({256, 300}, 0.875), (ImageBox{16, 38, 224, 224}));
  EXPECT_EQ(CentreSquare({300, 256}, 1), (ImageBox{22, 0, 256, 256}));
  EXPECT_EQ(CentreSquare({1, 7}, 0.1), (ImageBox{0, 3, 1, 1}));
}

}  // namespace
}  // namespace mtrun::trainers
