#include "datasets/images/image_file.h"

#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"
#include "datasets/images/resample.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

TEST(ImageFileTest, DecodesByContentWhateverTheNameSays) {
  const RgbImage image{{5, 7}, test::Picture(5, 7, 1)};
  EXPECT_EQ(*DecodeImage(EncodePng(image)), image);
  EXPECT_EQ(DecodeImage(EncodeJpeg(image, 95))->size, image.size);
  EXPECT_EQ(*FindAnyImageSize(EncodePng(image)), image.size);
  EXPECT_EQ(*FindAnyImageSize(EncodeJpeg(image, 95)), image.size);
}

TEST(ImageFileTest, OtherFilesAreRefusedByTheirKind) {
  const auto error = [](const std::string& file) {
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeImage(file).status())) << file.substr(0, 4);
    if (FindImageKind(file) == ImageKind::kNone) {
      EXPECT_EQ(DecodeImage(file).status(), FindAnyImageSize(file).status());
    }
    return std::string(DecodeImage(file).status().message());
  };
  EXPECT_EQ(error("hello"), "not a JPEG or PNG image");
  EXPECT_THAT(error("GIF89a and more"), HasSubstr("a GIF file"));
  EXPECT_THAT(error(std::string("\0\0\0\x18"
                                "ftypheic and more",
                                21)),
              HasSubstr("a HEIC or AVIF file"));
  EXPECT_THAT(error("RIFF....WEBPVP8 "), HasSubstr("a WebP file"));
  EXPECT_THAT(error("BM..............."), HasSubstr("a BMP file"));
  EXPECT_THAT(error(std::string("II*\0............", 16)), HasSubstr("a TIFF file"));
  EXPECT_THAT(error("P6 1 1 255 RGB"), HasSubstr("a PBM, PGM or PPM file"));
  EXPECT_THAT(error(std::string("\0\0\1\0", 4)), HasSubstr("an ICO file"));
  EXPECT_THAT(error(std::string("pixels TRUEVISION-XFILE.\0", 25)), HasSubstr("a TGA file"));
  EXPECT_TRUE(absl::IsDataLoss(DecodeImage("").status()));
}

TEST(DecodeBoxTest, ExactModeCropsAndResizes) {
  const std::string file = test::GoldenFile("chroma_420.jpg");
  const ImageBox box{5, 8, 30, 40};
  const auto exact = DecodeBox(file, box, {12, 16}, DecodeMode::kExact);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(*exact, ResizeBilinear(Crop(*DecodeImage(file), box), InEighths({0, 0, 30, 40}), {12, 16}));
}

TEST(DecodeBoxTest, FastModeIsCloseToExact) {
  const RgbImage photo = test::GoldenImage("photo.png");
  RgbImage large = ResizeBilinear(photo, InEighths({0, 0, 47, 61}), {376, 488});
  const std::string file = EncodeJpeg(large, 90);
  for (const ImageBox& box : {ImageBox{0, 0, 376, 488}, {30, 41, 300, 333}, {100, 100, 160, 160}}) {
    for (const int side : {40, 96, 160}) {
      const auto exact = DecodeBox(file, box, {side, side}, DecodeMode::kExact);
      const auto fast = DecodeBox(file, box, {side, side}, DecodeMode::kFast);
      ASSERT_TRUE(exact.ok() && fast.ok()) << exact.status() << fast.status();
      EXPECT_LT(test::Compare(*exact, *fast).mean, 2) << side;
    }
  }
}

TEST(DecodeBoxTest, BoxOutsideTheImageIsRefused) {
  for (const DecodeMode mode : {DecodeMode::kExact, DecodeMode::kFast}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        DecodeBox(test::GoldenFile("chroma_420.jpg"), {20, 20, 40, 20}, {8, 8}, mode).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(
        DecodeBox(test::GoldenFile("photo.png"), {20, 20, 40, 20}, {8, 8}, mode).status()));
  }
}

}  // namespace
}  // namespace mtrun::datasets
