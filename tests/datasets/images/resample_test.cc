#include "datasets/images/resample.h"

#include <cmath>
#include <random>
#include <vector>

#include "datasets/images/blend.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"

namespace mtrun::datasets {
namespace {

RgbImage Noise(const ImageSize& size, std::mt19937_64& random) {
  RgbImage image = MakeImage(size);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random());
  return image;
}

/// Computes the mean of the source over [from, to) in both directions, by definition.
double AreaMean(const RgbImage& image, int channel, double top, double bottom, double left, double right) {
  double sum = 0;
  for (int y = 0; y < image.size.height; ++y) {
    const double rows = std::min<double>(bottom, y + 1) - std::max<double>(top, y);
    if (rows <= 0) continue;
    for (int x = 0; x < image.size.width; ++x) {
      const double columns = std::min<double>(right, x + 1) - std::max<double>(left, x);
      if (columns > 0) sum += rows * columns * image.pixels[size_t{3} * (y * image.size.width + x) + channel];
    }
  }
  return sum / ((bottom - top) * (right - left));
}

TEST(AverageAreaTest, IsTheMeanOverTheArea) {
  std::mt19937_64 random(test::Seed());
  for (const auto& [from, to] : std::vector<std::pair<ImageSize, ImageSize>>{
           {{8, 8}, {4, 4}}, {{7, 11}, {3, 5}}, {{31, 17}, {30, 16}}, {{5, 9}, {1, 1}}, {{12, 4}, {5, 4}}}) {
    const RgbImage image = Noise(from, random), small = AverageArea(image, to);
    ASSERT_EQ(small.size, to);
    const double high = double(from.height) / to.height, wide = double(from.width) / to.width;
    for (int y = 0; y < to.height; ++y) {
      for (int x = 0; x < to.width; ++x) {
        for (int c = 0; c < 3; ++c) {
          ASSERT_NEAR(small.pixels[size_t{3} * (y * to.width + x) + c],
                      AreaMean(image, c, y * high, (y + 1) * high, x * wide, (x + 1) * wide), 0.5 + 1e-9);
        }
      }
    }
  }
}

TEST(AverageAreaTest, HalvesAreExact) {
  RgbImage halves = MakeImage({4, 4});  // left black, right white
  for (int i = 0; i < 16; ++i) std::fill_n(halves.pixels.begin() + 3 * i, 3, i % 4 < 2 ? 0 : 255);
  EXPECT_EQ(AverageArea(halves, {2, 2}).pixels,
            (std::vector<uint8_t>{0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(AverageArea(halves, {1, 1}).pixels, std::vector<uint8_t>(3, 128));  // 127.5, rounded up
  EXPECT_EQ(AverageArea(halves, {4, 4}), halves);
}

TEST(AverageAreaTest, WhiteStaysWhiteAtTheMaximumSize) {
  RgbImage wide = MakeImage({1, kMaxImageSide});
  std::fill(wide.pixels.begin(), wide.pixels.end(), 255);
  EXPECT_EQ(AverageArea(wide, {1, 1}).pixels, std::vector<uint8_t>(3, 255));
  EXPECT_EQ(AverageArea(wide, {1, kMaxImageSide - 1}).pixels.back(), 255);
}

TEST(ResizeBilinearTest, MatchesPillowWithinOneLevel) {
  const RgbImage photo = test::GoldenImage("photo.png");
  const ImageBox all{0, 0, 47, 61};
  const std::map<std::string, std::pair<ImageBox, ImageSize>> cases{
      {"bilinear_half", {all, {24, 30}}},
      {"bilinear_tiny", {all, {5, 7}}},
      {"bilinear_one", {all, {1, 1}}},
      {"bilinear_larger", {all, {71, 90}}},
      {"bilinear_mixed", {all, {60, 20}}},
      {"bilinear_crop", {{9, 13, 29, 33}, {16, 16}}},
      {"bilinear_enlarged_crop", {{10, 20, 7, 9}, {24, 24}}}};
  for (const auto& [name, one] : cases) {
    const RgbImage ours = ResizeBilinear(photo, InEighths(one.first), one.second);
    const test::Difference found = test::Compare(ours, test::GoldenImage(name + ".png"));
    EXPECT_LE(found.largest, 1) << name;
    EXPECT_LT(found.mean, 0.01) << name;
  }
}

TEST(ResizeBilinearTest, SameSizeKeepsTheImage) {
  std::mt19937_64 random(test::Seed());
  const RgbImage image = Noise({9, 14}, random);
  EXPECT_EQ(ResizeBilinear(image, InEighths({0, 0, 9, 14}), {9, 14}), image);
  EXPECT_EQ(ResizeBilinear(image, InEighths({2, 3, 4, 5}), {4, 5}), Crop(image, {2, 3, 4, 5}));
}

TEST(ResizeBilinearTest, BoxReadsNoPixelOutsideIt) {
  std::mt19937_64 random(test::Seed());
  const RgbImage image = Noise({40, 40}, random);
  const ImageBox box{7, 5, 21, 30};
  EXPECT_EQ(ResizeBilinear(image, InEighths(box), {10, 10}),
            ResizeBilinear(Crop(image, box), InEighths({0, 0, 21, 30}), {10, 10}));
}

TEST(ResizeImageTest, AveragesIfBothSidesShrink) {
  std::mt19937_64 random(test::Seed());
  const RgbImage image = Noise({10, 10}, random);
  EXPECT_EQ(ResizeImage(image, {5, 5}), AverageArea(image, {5, 5}));
  EXPECT_EQ(ResizeImage(image, {5, 20}), ResizeBilinear(image, InEighths({0, 0, 10, 10}), {5, 20}));
  EXPECT_EQ(ResizeImage(image, {10, 10}), image);
}

TEST(FitIntoTest, KeepsTheShapeAndNeverEnlarges) {
  EXPECT_EQ(FitInto({400, 500}, 256, 0), (ImageSize{256, 320}));
  EXPECT_EQ(FitInto({500, 400}, 256, 0), (ImageSize{320, 256}));
  EXPECT_EQ(FitInto({400, 500}, 0, 250), (ImageSize{200, 250}));
  EXPECT_EQ(FitInto({400, 2000}, 256, 500), (ImageSize{100, 500}));
  EXPECT_EQ(FitInto({100, 120}, 256, 500), (ImageSize{100, 120}));
  EXPECT_EQ(FitInto({1, 5000}, 0, 100), (ImageSize{1, 100}));
  EXPECT_EQ(FitInto({400, 500}, 0, 0), (ImageSize{400, 500}));
}

// Vector code and portable code produce identical bits.
TEST(BlendTest, IsTheSameForAnyVectorWidth) {
  std::mt19937_64 random(test::Seed());
  for (int round = 0; round < 200; ++round) {
    const int pixels = 1 + static_cast<int>(random() % 40), outputs = 1 + static_cast<int>(random() % 30);
    std::vector<uint8_t> row(3 * pixels + 1);
    for (uint8_t& byte : row) byte = random() % 4 == 0 ? 255 : static_cast<uint8_t>(random());
    std::vector<Taps> taps;
    std::vector<int32_t> weights;
    for (int i = 0; i < outputs; ++i) {
      Taps one{.first = static_cast<int>(random() % pixels), .at = static_cast<int64_t>(weights.size())};
      one.count = 1 + static_cast<int>(random() % (pixels - one.first));
      for (int k = 0; k < one.count; ++k)
        weights.push_back((1 << kWeightBits) / one.count + (k == 0 ? 1 : 0));
      taps.push_back(one);
    }
    std::vector<uint8_t> found(3 * outputs), expected = found;
    BlendColumns(row.data(), taps.data(), outputs, weights.data(), found.data());
    BlendColumnsAnywhere(row.data(), taps.data(), outputs, weights.data(), expected.data());
    ASSERT_EQ(found, expected);
    const int64_t bytes = 1 + static_cast<int64_t>(random() % row.size());
    const int count = static_cast<int>(static_cast<int64_t>(row.size()) / bytes);
    const std::vector<int32_t> equal(count, (1 << kWeightBits) / count + 1);
    found.assign(bytes, 0), expected.assign(bytes, 0);
    BlendRows(row.data(), bytes, count, equal.data(), found.data());
    BlendRowsAnywhere(row.data(), bytes, count, equal.data(), expected.data());
    ASSERT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace mtrun::datasets
