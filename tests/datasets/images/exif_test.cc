#include "datasets/images/exif.h"

#include <zlib.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "datasets/images/image_file.h"
#include "datasets/images/jpeg.h"
#include "datasets/images/png.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

std::string TiffBlock(bool little, int orientation) {
  const std::string value(1, static_cast<char>(orientation));
  if (little)
    return std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18) + value + std::string(7, '\0');
  return std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19) + value + std::string(6, '\0');
}

std::string JpegWith(const std::string& tiff) {
  const std::string file = EncodeJpeg({{2, 3}, test::Picture(2, 3, 1)}, 90);
  const std::string body = std::string("Exif\0\0", 6) + tiff;
  return file.substr(0, 2) + "\xFF\xE1" + std::string(1, '\0') + static_cast<char>(body.size() + 2) + body +
         file.substr(2);
}

TEST(ExifTest, ReadsTheOrientation) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(ExifOrientation(JpegWith(TiffBlock(true, orientation))), orientation);
    EXPECT_EQ(ExifOrientation(JpegWith(TiffBlock(false, orientation))), orientation);
  }
  const std::string png = EncodePng({{2, 3}, test::Picture(2, 3, 1)});
  const std::string tiff = TiffBlock(false, 6);
  const std::string chunk = std::string(3, '\0') + static_cast<char>(tiff.size()) + "eXIf" + tiff + "sums";
  EXPECT_EQ(ExifOrientation(png.substr(0, 33) + chunk + png.substr(33)), 6);
}

/// Returns a PNG with a chunk before its pixels.
std::string PngWith(const std::string& name, const std::string& body) {
  const std::string png = EncodePng({{2, 3}, test::Picture(2, 3, 1)});
  const std::string length =
      std::string(2, '\0') + static_cast<char>(body.size() >> 8) + static_cast<char>(body.size());
  return png.substr(0, 33) + length + name + body + "sums" + png.substr(33);
}

// As ImageMagick writes it; Pillow 13.0 turns such files.
TEST(ExifTest, ReadsTheOrientationOfTextInPng) {
  const std::string exif = std::string("Exif\0\0", 6) + TiffBlock(false, 6);
  const std::string text =
      absl::StrCat("\nexif\n      ", exif.size(), "\n", absl::BytesToHexString(exif), "\n");
  std::string packed(2 * text.size() + 99, '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(text.data()), text.size()),
            Z_OK);
  packed.resize(size);
  const std::string keyword("Raw profile type exif\0", 22);
  const std::string plain = keyword + text;
  EXPECT_EQ(ExifOrientation(PngWith("tEXt", plain)), 6);
  EXPECT_EQ(ExifOrientation(PngWith("zTXt", keyword + std::string(1, '\0') + packed)), 6);
  EXPECT_EQ(ExifOrientation(PngWith("iTXt", keyword + std::string(4, '\0') + text)), 6);
  EXPECT_EQ(ExifOrientation(PngWith("iTXt", keyword + std::string("\1\0en\0\0", 6) + packed)), 6);
  EXPECT_EQ(ExifOrientation(PngWith("tEXt", absl::StrCat("Raw profile type 8bim", plain.substr(21)))), 1);
  EXPECT_EQ(ExifOrientation(PngWith("zTXt", keyword + std::string(1, '\0') + text)), 1) << "not compressed";
  for (size_t i = 0; i < plain.size(); ++i) {
    const int found = ExifOrientation(PngWith("tEXt", plain.substr(0, i)));
    EXPECT_TRUE(found == 1 || found == 6) << i;
  }
}

/// A file can end within the signature of each kind.
TEST(ExifTest, StartsOfSignaturesAreUpright) {
  const std::string starts[] = {"RIFF\x10\x0F\x0E\x0DWEBPVP8X",
                                "GIF89a______",
                                "BM__________",
                                "II*\x01________",
                                "MM__________",
                                "____ftypheic",
                                "\x89PNG\r\n\x1A\n____",
                                "\xFF\xD8\xFF\xE1\x09____"};
  for (const std::string& start : starts) {
    for (size_t size = 0; size <= start.size(); ++size) {
      EXPECT_EQ(ExifOrientation(start.substr(0, size)), 1) << start << " " << size;
      EXPECT_FALSE(FindAnyImageSize(start.substr(0, size)).ok()) << start << " " << size;
    }
  }
}

TEST(ExifTest, InvalidOrientationIsUpright) {
  EXPECT_EQ(ExifOrientation(""), 1);
  EXPECT_EQ(ExifOrientation("\xFF\xD8\xFF\xE1"), 1);
  EXPECT_EQ(ExifOrientation(EncodeJpeg({{2, 3}, test::Picture(2, 3, 1)}, 90)), 1);
  EXPECT_EQ(ExifOrientation(EncodePng({{2, 3}, test::Picture(2, 3, 1)})), 1);
  for (const int wrong : {0, 9, 255}) EXPECT_EQ(ExifOrientation(JpegWith(TiffBlock(true, wrong))), 1);
  const std::string whole = JpegWith(TiffBlock(true, 6));
  for (size_t size = 0; size < whole.size(); ++size) {
    const int found = ExifOrientation(std::string_view(whole).substr(0, size));
    EXPECT_TRUE(found == 1 || found == 6) << size;
  }
}

// The image is  0 1 2   (2 rows, 3 columns); the results are those of Pillow's ImageOps.exif_transpose.
//               3 4 5
TEST(ExifTest, TurnsAndMirrors) {
  RgbImage image = MakeImage({2, 3});
  for (int i = 0; i < 6; ++i) std::fill_n(image.pixels.begin() + 3 * i, 3, static_cast<uint8_t>(i));
  const std::vector<std::vector<int>> expected{{},
                                               {0, 1, 2, 3, 4, 5},
                                               {2, 1, 0, 5, 4, 3},
                                               {5, 4, 3, 2, 1, 0},
                                               {3, 4, 5, 0, 1, 2},
                                               {0, 3, 1, 4, 2, 5},
                                               {3, 0, 4, 1, 5, 2},
                                               {5, 2, 4, 1, 3, 0},
                                               {2, 5, 1, 4, 0, 3}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const RgbImage shown = Upright(image, orientation);
    EXPECT_EQ(shown.size, orientation < 5 ? image.size : (ImageSize{3, 2})) << orientation;
    for (int i = 0; i < 6; ++i) EXPECT_EQ(shown.pixels[3 * i], expected[orientation][i]) << orientation;
  }
}

}  // namespace
}  // namespace mtrun::datasets
