#include "trainers/input/reading.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(SizeInEpoch, GrowsInMultiplesOf32) {
  const ImageGrowth growth{.from = 128, .first = 3, .end = 8};
  // From epoch 2 to epoch 8 the sizes are 128, 144, 160, 176, 192, 208, 224; halves round to even multiples.
  const int between[] = {128, 128, 128, 128, 160, 192, 192, 192, 224, 224};
  for (int epoch = 0; epoch < 10; ++epoch)
    EXPECT_EQ(SizeInEpoch(growth, 224, epoch), between[epoch]) << epoch;
}

// FFCV's rn18_16_epochs: start_ramp 11, end_ramp 13, 160 to 192.
TEST(SizeInEpoch, MatchesFfcvsRamp) {
  const ImageGrowth growth{.from = 160, .first = 12, .end = 13};
  for (int epoch = 0; epoch < 16; ++epoch)
    EXPECT_EQ(SizeInEpoch(growth, 192, epoch), epoch < 12 ? 160 : 192) << epoch;
}

TEST(SizeInEpoch, StaysTheSameWithoutGrowth) {
  EXPECT_EQ(SizeInEpoch({}, 224, 0), 224);
  EXPECT_EQ(SizeInEpoch({.from = 96, .first = 0, .end = 0}, 224, 0), 224);
  EXPECT_EQ(SizeInEpoch({.from = 96, .first = 2, .end = 2}, 200, 1), 96);
  EXPECT_EQ(SizeInEpoch({.from = 96, .first = 2, .end = 2}, 200, 2), 200);
}

TEST(Reading, ChangesIfEpochsDiffer) {
  EXPECT_FALSE(Reading{}.changes());
  EXPECT_TRUE(Reading{.crop = RandomCrop{}}.changes());
  EXPECT_TRUE((Reading{.jitter = {.hue = 0.1}}.changes()));
  EXPECT_TRUE((Reading{.growth = {.from = 32}}.changes()));
}

TEST(Reading, AutoIsFastOnlyIfImagesChange) {
  using datasets::DecodeMode;
  const Reading same, cut{.crop = RandomCrop{}};
  EXPECT_EQ(DecodeModeFor(*ParseDecodeChoice("auto"), same), DecodeMode::kExact) << "as earlier releases";
  EXPECT_EQ(DecodeModeFor(*ParseDecodeChoice("auto"), cut), DecodeMode::kFast);
  for (const Reading& reading : {same, cut}) {
    EXPECT_EQ(DecodeModeFor(*ParseDecodeChoice("exact"), reading), DecodeMode::kExact);
    EXPECT_EQ(DecodeModeFor(*ParseDecodeChoice("fast"), reading), DecodeMode::kFast);
  }
  EXPECT_FALSE(ParseDecodeChoice("slow").ok());
}

}  // namespace
}  // namespace mtrun::trainers
