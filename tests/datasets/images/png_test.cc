#include "datasets/images/png.h"

#include <random>

#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/datasets/images/golden.h"

namespace mtrun::datasets {
namespace {

TEST(PngTest, RoundTripIsLossless) {
  const RgbImage image{{5, 7}, test::Picture(5, 7, 1)};
  const auto again = DecodePng(EncodePng(image));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, image);
  EXPECT_EQ(*PngSize(EncodePng(image)), (ImageSize{5, 7}));
}

TEST(PngTest, EveryKindBecomesRgb) {
  for (const char* name : {"palette.png", "one_bit.png", "grey.png", "interlaced.png", "deep.png"}) {
    const auto image = DecodePng(test::GoldenFile(name));
    ASSERT_TRUE(image.ok()) << name << ": " << image.status();
    EXPECT_EQ(*image, test::GoldenImage(std::string(name) + ".rgb.png")) << name;
  }
}

TEST(PngTest, EveryTruncationIsDetected) {
  const std::string whole = EncodePng({{8, 8}, test::Picture(8, 8, 3)});
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(DecodePng(std::string_view(whole).substr(0, size)).ok()) << size << " of " << whole.size();
}

TEST(PngTest, DamageIsAnErrorAndNeverACrash) {
  std::mt19937_64 random(test::Seed());
  const std::string original = EncodePng({{16, 16}, test::Picture(16, 16, 1)});
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = original;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    EXPECT_FALSE(DecodePng(bytes, {.max_pixels = 1 << 20}).ok());  // every byte is covered by a checksum
  }
}

TEST(PngTest, HugeClaimedSizeIsRefusedEarly) {
  const std::string file = EncodePng({{16, 16}, test::Picture(16, 16, 1)});
  EXPECT_TRUE(absl::IsInvalidArgument(DecodePng(file, {.max_pixels = 255}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodePng("hello").status()));
}

}  // namespace
}  // namespace mtrun::datasets
