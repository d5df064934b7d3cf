#include "datasets/import/image_rules.h"

#include "datasets/images/image_file.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"
#include "datasets/images/resample.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

const RgbImage kImage{{20, 30}, test::Picture(20, 30, 1)};

/// Returns a JPEG of 20x30 that was taken with the camera on its side (orientation 6).
std::string Turned() {
  const std::string file = EncodeJpeg(kImage, 90);
  const std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 32);
  return file.substr(0, 2) + std::string("\xFF\xE1\0\x22", 4) + exif + file.substr(2);
}

TEST(ImageRulesTest, FittingImageKeepsItsBytes) {
  for (const std::string& file : {EncodeJpeg(kImage, 90), EncodePng(kImage)}) {
    for (const ImageRules& rules : {ImageRules{}, ImageRules{.short_side = 20}, ImageRules{.max_side = 30},
                                    ImageRules{.exif = false}}) {
      const auto record = MakeRecord(file, rules);
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(record->bytes, file);
      EXPECT_EQ(record->size, kImage.size);
    }
  }
}

TEST(ImageRulesTest, LargerImageIsReencodedInItsFormat) {
  const auto png = MakeRecord(EncodePng(kImage), {.short_side = 10});
  ASSERT_TRUE(png.ok());
  EXPECT_EQ(*DecodePng(png->bytes), AverageArea(kImage, {10, 15}));
  const auto jpeg = MakeRecord(EncodeJpeg(kImage, 95), {.max_side = 15, .quality = 80});
  ASSERT_TRUE(jpeg.ok());
  EXPECT_TRUE(IsJpeg(jpeg->bytes));
  EXPECT_EQ(*JpegSize(jpeg->bytes), (ImageSize{10, 15}));
}

TEST(ImageRulesTest, CropsTheCenterOrStretches) {
  const ImageRules centre{.centre = ImageSize{10, 10}}, stretch{.stretch = ImageSize{10, 10}};
  EXPECT_EQ(FitImage(kImage, centre), AverageArea(Crop(kImage, {0, 5, 20, 20}), {10, 10}));
  EXPECT_EQ(FitImage(kImage, stretch), AverageArea(kImage, {10, 10}));
  EXPECT_EQ(MakeRecord(EncodePng(kImage), centre)->size, (ImageSize{10, 10}));
}

TEST(ImageRulesTest, TurnsUnlessToldOtherwise) {
  const auto stored = MakeRecord(Turned(), {.exif = false});
  EXPECT_EQ(stored->bytes, Turned());
  EXPECT_TRUE(stored->oriented);
  const auto upright = MakeRecord(Turned(), {});
  ASSERT_TRUE(upright.ok()) << upright.status();
  EXPECT_EQ(upright->size, (ImageSize{30, 20}));
  EXPECT_TRUE(upright->oriented);
  EXPECT_EQ(DecodeFitted(Turned(), {})->size, (ImageSize{30, 20}));
  EXPECT_FALSE(MakeRecord(EncodePng(kImage), {})->oriented);
  EXPECT_STREQ(ImageRules{}.orientation(), kTurnedUpright);
  EXPECT_STREQ(ImageRules{.exif = false}.orientation(), kAsStored);
}

TEST(ImageRulesTest, ConflictingRulesAreRefused) {
  EXPECT_TRUE(CheckRules({.short_side = 10, .max_side = 20}).ok());
  EXPECT_FALSE(CheckRules({.stretch = ImageSize{8, 8}, .short_side = 10}).ok());
  EXPECT_FALSE(CheckRules({.stretch = ImageSize{8, 8}, .centre = ImageSize{8, 8}}).ok());
  EXPECT_NE(ImageRules{.quality = 80}.Describe(), ImageRules{}.Describe());
}

TEST(ImageRulesTest, BadImageIsAnErrorEvenIfItWouldBeKept) {
  const std::string file = EncodeJpeg(kImage, 90);
  EXPECT_FALSE(MakeRecord(file.substr(0, file.size() / 2), {}).ok());
  EXPECT_FALSE(MakeRecord("", {}).ok());
  EXPECT_FALSE(MakeRecord(file, {.limits = {.max_pixels = 10}}).ok());
}

}  // namespace
}  // namespace mtrun::datasets
