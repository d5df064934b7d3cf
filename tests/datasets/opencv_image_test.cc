#include "datasets/import/opencv_image.h"

#include "datasets/images/image_file.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

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

TEST(OpenCvImageTest, EveryBuildReadsABmp) {
  for (const auto& image : {DecodeSourceImage(Bmp()), DecodeAnyImage(Bmp())}) {
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->size, (ImageSize{2, 1}));
    EXPECT_EQ(image->pixels, (std::vector<uint8_t>{255, 0, 0, 0, 0, 255}));
  }
  EXPECT_EQ(*FindAnyImageSize(Bmp()), (ImageSize{2, 1}));
}

TEST(OpenCvImageTest, LimitsApplyToEveryFormat) {
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeSourceImage(Bmp(), {.max_pixels = 1}).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeSourceImage(Bmp(100)).status()));  // fewer rows than claimed
  for (const std::string& broken :
       {Bmp().substr(0, 20), std::string("RIFF....WEBPVP8 "), std::string("II*\0........", 12)})
    EXPECT_FALSE(DecodeSourceImage(broken).ok());
}

}  // namespace
}  // namespace mtrun::datasets
