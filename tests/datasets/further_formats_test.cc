#include "datasets/import/further_formats.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

/// Returns a BMP of 2 rows and 1 column, red above blue. Rows start at the bottom, in BGR, padded to 4 bytes.
std::string Bmp(char height = 2) {
  std::string file("BM\x3E\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\x18\0", 30);
  file[22] = height;
  file += std::string(24, '\0');
  return file + std::string(
                    "\xFF\0\0\0"
                    "\0\0\xFF\0",
                    8);
}

TEST(FurtherFormatsTest, ReadsABmpOrRefusesItByName) {
  const auto image = DecodeAnyImage(Bmp());
  if (!ReadsFurtherFormats()) {
    EXPECT_THAT(std::string(image.status().message()), HasSubstr("a BMP file"));
    return;
  }
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->size, (ImageSize{2, 1}));
  EXPECT_EQ(image->pixels, (std::vector<uint8_t>{255, 0, 0, 0, 0, 255}));
  EXPECT_EQ(*FindAnyImageSize(Bmp()), (ImageSize{2, 1}));
}

TEST(FurtherFormatsTest, LimitsApplyToThem) {
  EXPECT_FALSE(DecodeAnyImage(Bmp(), {.max_pixels = 1}).ok());
  EXPECT_FALSE(DecodeAnyImage(Bmp(100)).ok());  // fewer rows than claimed
  for (const std::string& broken :
       {Bmp().substr(0, 20), std::string("RIFF....WEBPVP8 "), std::string("II*\0........", 12)})
    EXPECT_FALSE(DecodeAnyImage(broken).ok());
}

}  // namespace
}  // namespace mtrun::datasets
