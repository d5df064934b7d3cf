#include "datasets/images/image.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

TEST(ImageTest, ParsesSizes) {
  EXPECT_EQ(*ParseImageSize("32x48"), (ImageSize{32, 48}));
  EXPECT_EQ(*ParseImageSize("28"), (ImageSize{28, 28}));
  EXPECT_EQ(SizeText({32, 48}), "32x48");
  for (const char* text : {"", "x", "0x4", "4x", "-4x4", "4x4x4", "axb", "70000", "99999999999"})
    EXPECT_FALSE(ParseImageSize(text).ok()) << text;
}

TEST(ImageTest, BoxesAreInsideOrNot) {
  const ImageSize size{4, 6};
  EXPECT_TRUE(IsInside({0, 0, 4, 6}, size));
  EXPECT_TRUE(IsInside({3, 5, 1, 1}, size));
  EXPECT_FALSE(IsInside({0, 0, 5, 6}, size));
  EXPECT_FALSE(IsInside({1, 0, 4, 6}, size));
  EXPECT_FALSE(IsInside({-1, 0, 2, 2}, size));
  EXPECT_FALSE(IsInside({0, 0, 0, 2}, size));
  EXPECT_FALSE(IsInside({2147483647, 0, 2, 2}, size));
}

TEST(ImageTest, CenterCropHasTheRequestedShape) {
  EXPECT_EQ(CentredBox({100, 200}, {1, 1}), (ImageBox{0, 50, 100, 100}));
  EXPECT_EQ(CentredBox({201, 100}, {224, 224}), (ImageBox{50, 0, 100, 100}));
  EXPECT_EQ(CentredBox({100, 100}, {1, 3}), (ImageBox{33, 0, 33, 100}));
  EXPECT_EQ(CentredBox({1, 9}, {9, 1}), (ImageBox{0, 4, 1, 1}));
  EXPECT_EQ(CentredBox({30, 40}, {3, 4}), (ImageBox{0, 0, 30, 40}));
}

TEST(ImageTest, Crops) {
  RgbImage image = MakeImage({2, 3});
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(Crop(image, {1, 1, 1, 2}).pixels, (std::vector<uint8_t>{12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(Crop(image, {0, 0, 2, 3}), image);
}

TEST(ImageTest, TooLargeImageErrorNamesTheFlag) {
  EXPECT_TRUE(CheckLimits(10, 10, {.max_pixels = 100}).ok());
  const absl::Status large = CheckLimits(10, 11, {.max_pixels = 100});
  EXPECT_TRUE(absl::IsInvalidArgument(large));
  EXPECT_THAT(std::string(large.message()), testing::AllOf(HasSubstr("10x11"), HasSubstr("--max_pixels")));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckLimits(65536, 1, {})));
  EXPECT_TRUE(absl::IsDataLoss(CheckLimits(0, 5, {})));
}

}  // namespace
}  // namespace mtrun::datasets
