#include "datasets/images/jpeg.h"

#include <random>

#include "datasets/images/resample.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

std::string Small() { return EncodeJpeg({{16, 16}, test::Picture(16, 16, 1)}, 90); }

/// Changes the size in a JPEG's frame header (SOF0): height and width follow after 5 bytes.
std::string Claiming(std::string file, int height, int width) {
  const size_t at = file.find("\xFF\xC0") + 5;
  for (int i = 0; i < 2; ++i) {
    file[at + i] = static_cast<char>(height >> (8 - 8 * i));
    file[at + 2 + i] = static_cast<char>(width >> (8 - 8 * i));
  }
  return file;
}

TEST(JpegTest, DecodesLikePillow) {
  for (const char* name : {"chroma_420.jpg", "chroma_444.jpg", "progressive.jpg", "grey.jpg"}) {
    const auto image = DecodeJpeg(test::GoldenFile(name));
    ASSERT_TRUE(image.ok()) << name << ": " << image.status();
    EXPECT_EQ(test::Compare(*image, test::GoldenImage(std::string(name) + ".rgb.png")).largest, 0) << name;
    EXPECT_EQ(*JpegSize(test::GoldenFile(name)), image->size);
  }
}

TEST(JpegTest, CmykBecomesRgb) {
  const auto image = DecodeJpeg(test::GoldenFile("cmyk.jpg"));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(test::Compare(*image, test::GoldenImage("cmyk.jpg.rgb.png")).largest, 0);
}

TEST(JpegTest, EncodesCloseToTheImage) {
  const RgbImage image = test::GoldenImage("photo.png");
  const auto again = DecodeJpeg(EncodeJpeg(image, 95));
  ASSERT_TRUE(again.ok());
  EXPECT_LT(test::Compare(*again, image).mean, 12);
  EXPECT_LT(EncodeJpeg(image, 40).size(), EncodeJpeg(image, 90).size());
  EXPECT_EQ(EncodeJpeg(image, 90), EncodeJpeg(image, 90));
}

TEST(JpegTest, EveryTruncationIsDetected) {
  for (const std::string& whole : {Small(), test::GoldenFile("progressive.jpg")}) {
    for (size_t size = 0; size < whole.size(); ++size)
      ASSERT_FALSE(DecodeJpeg(std::string_view(whole).substr(0, size)).ok())
          << size << " of " << whole.size();
  }
  EXPECT_EQ(DecodeJpeg(Small().substr(0, Small().size() - 2)).status().message(), "truncated JPEG");
}

TEST(JpegTest, BytesAfterTheEndAreIgnored) { EXPECT_TRUE(DecodeJpeg(Small() + "trailer").ok()); }

// Regression: a scan without an end made the position wrap around and read beyond the buffer.
TEST(JpegTest, ScanWithoutAnEndIsIncomplete) {
  for (const std::string& file :
       {std::string(), std::string("\xFF"), std::string("\xFF\xD8"),
        std::string("\xFF\xD8\xFF\xDA\0\2abc", 9), std::string("\xFF\xD8\xFF\xDA\0", 5),
        std::string("\xFF\xD8\xFF\xDA\xFF\xFF", 6)}) {
    const std::vector<char> exact(file.begin(), file.end());
    EXPECT_FALSE(JpegIsComplete({exact.data(), exact.size()}));
  }
}

TEST(JpegTest, DamageIsAnErrorAndNeverACrash) {
  std::mt19937_64 random(test::Seed());
  const std::string original = test::GoldenFile("chroma_420.jpg");
  int seen = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = original;
    for (uint64_t n = 1 + random() % 4; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto image = DecodeJpeg(bytes, {.max_pixels = 1 << 20});
    if (image.ok()) {
      EXPECT_EQ(image->pixels.size(), size_t{3} * image->size.height * image->size.width);
    }
    seen += !image.ok();
  }
  EXPECT_GT(seen, 100);
}

TEST(JpegTest, HugeClaimedSizeIsRefusedEarly) {
  const auto bomb = DecodeJpeg(Claiming(Small(), 65500, 65500));
  EXPECT_TRUE(absl::IsInvalidArgument(bomb.status()));
  EXPECT_THAT(std::string(bomb.status().message()), HasSubstr("65500x65500"));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeJpeg(Small(), {.max_pixels = 255}).status()));
  EXPECT_TRUE(DecodeJpeg(Small(), {.max_pixels = 256}).ok());
}

TEST(JpegTest, ThousandsOfScansAreRefused) {
  std::string file = test::GoldenFile("progressive.jpg");
  // Repeats the first scan: from its header to the next marker of a table or scan.
  const size_t begin = file.find("\xFF\xDA"), next = file.find("\xFF\xC4", begin);
  ASSERT_NE(next, std::string::npos);
  const std::string scan = file.substr(begin, next - begin);
  std::string many;
  for (int i = 0; i < 600; ++i) many += scan;
  file.insert(next, many);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeJpeg(file).status())) << DecodeJpeg(file).status();
}

TEST(JpegPartTest, RowsAtFullScaleEqualTheImage) {
  const std::string file = test::GoldenFile("chroma_420.jpg");
  const RgbImage whole = *DecodeJpeg(file);
  for (const ImageBox& box : {ImageBox{0, 0, 47, 61}, {20, 30, 10, 12}, {46, 0, 1, 61}, {0, 60, 47, 1}}) {
    const auto part = DecodeJpegPart(file, box, {box.height, box.width});
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_EQ(part->eighths, 8);
    const RgbImage inner =
        Crop(part->image, {box.top - part->top, box.left - part->left, box.height, box.width});
    EXPECT_LE(test::Compare(inner, Crop(whole, box)).largest, 1);
  }
}

TEST(JpegPartTest, SmallestSufficientScaleIsChosen) {
  const std::string file = test::GoldenFile("chroma_444.jpg");
  const ImageBox all{0, 0, 47, 61};
  const auto scale = [&](const ImageSize& at_least) { return DecodeJpegPart(file, all, at_least)->eighths; };
  EXPECT_EQ(scale({5, 7}), 1);
  EXPECT_EQ(scale({6, 7}), 2);
  EXPECT_EQ(scale({23, 30}), 4);
  EXPECT_EQ(scale({24, 30}), 8);
  EXPECT_EQ(scale({200, 200}), 8);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeJpegPart(file, {40, 0, 8, 8}, {8, 8}).status()));
}

}  // namespace
}  // namespace mtrun::datasets
