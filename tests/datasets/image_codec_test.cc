#include "datasets/image_codec.h"

#include <cstdlib>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using test::Encode;
using test::Picture;

std::string Raw(const std::string& extension, const cv::Mat& image) {
  std::vector<uint8_t> bytes;
  EXPECT_TRUE(cv::imencode(extension, image, bytes));
  return std::string(bytes.begin(), bytes.end());
}

TEST(ImageCodecTest, PngKeepsEveryByteInRgbOrder) {
  const auto image = DecodeImage(Encode(".png", Picture(5, 7, 1), 5, 7));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->size, (ImageSize{5, 7}));
  EXPECT_EQ(image->pixels, Picture(5, 7, 1));
}

TEST(ImageCodecTest, JpegIsNearAndInRgbOrder) {
  std::vector<uint8_t> red;
  for (int i = 0; i < 16 * 16; ++i) red.insert(red.end(), {250, 10, 20});
  const auto image = DecodeImage(Encode(".jpg", red, 16, 16));
  ASSERT_TRUE(image.ok()) << image.status();
  for (size_t i = 0; i < red.size(); ++i) ASSERT_NEAR(image->pixels[i], red[i], 6) << i;
}

TEST(ImageCodecTest, GreyAlphaAnd16BitBecomeRgb) {
  const auto grey = DecodeImage(Raw(".png", cv::Mat(2, 2, CV_8UC1, cv::Scalar(77))));
  ASSERT_TRUE(grey.ok());
  EXPECT_EQ(grey->pixels, std::vector<uint8_t>(12, 77));
  const auto alpha = DecodeImage(Raw(".png", cv::Mat(1, 1, CV_8UC4, cv::Scalar(3, 2, 1, 0))));
  ASSERT_TRUE(alpha.ok());
  EXPECT_EQ(alpha->pixels, (std::vector<uint8_t>{1, 2, 3}));
  const auto deep = DecodeImage(Raw(".png", cv::Mat(1, 1, CV_16UC1, cv::Scalar(0x8000))));
  ASSERT_TRUE(deep.ok());
  EXPECT_EQ(deep->pixels, std::vector<uint8_t>(3, 0x80));
}

TEST(ImageCodecTest, OtherFilesAreNotImages) {
  for (const std::string& bytes :
       {std::string("hello"), std::string("GIF89a"), Raw(".bmp", cv::Mat(2, 2, CV_8UC3))}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeImage(bytes).status())) << bytes.substr(0, 4);
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeImage("").status()));
}

TEST(ImageCodecTest, EveryTruncationIsSeen) {
  for (const char* kind : {".jpg", ".png"}) {
    const std::string whole = Encode(kind, Picture(8, 8, 3), 8, 8);
    // A PNG's pixels are complete before its last chunk, which has no data.
    const size_t needed = kind == std::string(".png") ? whole.size() - 12 : whole.size();
    for (size_t size = 0; size < needed; ++size) {
      EXPECT_FALSE(DecodeImage(std::string_view(whole).substr(0, size)).ok())
          << kind << " " << size << " of " << whole.size();
    }
  }
}

TEST(ImageCodecTest, BytesBehindTheEndOfAJpegAreFine) {
  EXPECT_TRUE(DecodeImage(Encode(".jpg", Picture(8, 8, 3), 8, 8) + "trailer").ok());
}

TEST(ImageCodecTest, ProgressiveJpegsAreComplete) {
  std::vector<uint8_t> bytes;
  cv::imencode(".jpg", cv::Mat(32, 32, CV_8UC3, cv::Scalar(1, 2, 3)), bytes,
               {cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  const std::string file(bytes.begin(), bytes.end());
  EXPECT_TRUE(JpegIsComplete(file));
  EXPECT_FALSE(JpegIsComplete(std::string_view(file).substr(0, file.size() - 1)));
}

// Read beyond the buffer once: a scan without an end made the position wrap around.
TEST(ImageCodecTest, AScanWithoutAnEndIsNotComplete) {
  for (const std::string& file :
       {std::string(), std::string("\xFF"), std::string("\xFF\xD8"),
        std::string("\xFF\xD8\xFF\xDA\0\2abc", 9), std::string("\xFF\xD8\xFF\xDA\0", 5),
        std::string("\xFF\xD8\xFF\xDA\xFF\xFF", 6)}) {
    const std::vector<char> exact(file.begin(), file.end());
    EXPECT_FALSE(JpegIsComplete({exact.data(), exact.size()}));
  }
}

TEST(ImageCodecTest, RandomDamageNeverCrashes) {
  std::mt19937_64 random(test::Seed());
  for (const char* kind : {".jpg", ".png"}) {
    const std::string original = Encode(kind, Picture(16, 16, 1), 16, 16);
    for (int round = 0; round < 1000; ++round) {
      std::string bytes = original;
      // The size fields stay: a picture of 65,535 x 65,535 would be honest work, not a crash.
      for (uint64_t n = 1 + random() % 4; n > 0; --n)
        bytes[170 % bytes.size() + random() % (bytes.size() - 170 % bytes.size())] =
            static_cast<char>(random());
      const auto image = DecodeImage(bytes);
      if (image.ok()) {
        EXPECT_EQ(image->pixels.size(), size_t{3} * image->size.height * image->size.width);
      }
    }
  }
}

TEST(ImageCodecTest, Resizes) {
  std::vector<uint8_t> halves;  // left black, right white
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) halves.insert(halves.end(), 3, x < 2 ? 0 : 255);
  }
  const RgbImage small = ResizeImage(halves, {4, 4}, {2, 2});
  EXPECT_EQ(small.size, (ImageSize{2, 2}));
  EXPECT_EQ(small.pixels, (std::vector<uint8_t>{0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(ResizeImage(halves, {4, 4}, {1, 1}).pixels, std::vector<uint8_t>(3, 128));
  EXPECT_EQ(ResizeImage(halves, {4, 4}, {8, 5}).pixels.size(), 8u * 5 * 3);
}

TEST(ImageCodecTest, ParsesSizes) {
  EXPECT_EQ(*ParseImageSize("32x48"), (ImageSize{32, 48}));
  EXPECT_EQ(*ParseImageSize("28"), (ImageSize{28, 28}));
  EXPECT_EQ(SizeText({32, 48}), "32x48");
  for (const char* text : {"", "x", "0x4", "4x", "-4x4", "4x4x4", "axb", "70000", "99999999999"})
    EXPECT_FALSE(ParseImageSize(text).ok()) << text;
}

}  // namespace
}  // namespace mtrun::datasets
