#include "datasets/images/netpbm.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "datasets/images/bmp.h"
#include "datasets/images/image_file.h"
#include "datasets/images/image_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns the first colour of each pixel, from left to right.
std::vector<int> Reds(const std::string& file) {
  const auto image = DecodeNetpbm(file);
  EXPECT_TRUE(image.ok()) << image.status();
  std::vector<int> reds;
  for (size_t i = 0; image.ok() && i < image->pixels.size(); i += 3) reds.push_back(image->pixels[i]);
  return reds;
}

TEST(NetpbmTest, EveryFormIsReadFromTextAndBinary) {
  EXPECT_THAT(Reds("P1\n# of a test\n3 2\n010\n1 1 0\n"), ElementsAre(255, 0, 255, 0, 0, 255));
  EXPECT_THAT(Reds("P4 3 2\n\x40\xc0"), ElementsAre(255, 0, 255, 0, 0, 255));
  EXPECT_THAT(Reds("P2 3 1 255 0 17 255"), ElementsAre(0, 17, 255));
  EXPECT_THAT(Reds(std::string("P5 3 1 255\n\0\x11\xff", 14)), ElementsAre(0, 17, 255));
  EXPECT_EQ(DecodeNetpbm("P3 1 2 255 1 2 3 4 5 6")->pixels, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(DecodeNetpbm("P6 1 2 255\n\1\2\3\4\5\6")->pixels, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(*NetpbmSize("P6 7 2 255\n"), (ImageSize{2, 7}));
}

// Pillow 13.0: round(v / maximum * 255), which rounds 127.5 to 128 and 42.5 to 42; grey of more than 255
// becomes round(v / maximum * 65535), of which model.py takes the upper byte.
TEST(NetpbmTest, SamplesAreScaledByTheirMaximum) {
  EXPECT_THAT(Reds("P2 3 1 2 0 1 2"), ElementsAre(0, 128, 255));
  EXPECT_THAT(Reds("P2 2 1 6 1 5"), ElementsAre(42, 212));
  EXPECT_THAT(Reds(std::string("P5 3 1 31\n\0\x1f\xff", 13)), ElementsAre(0, 255, 255)) << "above it: white";
  EXPECT_THAT(Reds(std::string("P5 2 1 65535\n\x12\x34\xff\xff", 17)), ElementsAre(0x12, 255));
  EXPECT_THAT(Reds("P2 2 1 1023 512 1023"), ElementsAre(128, 255));
  EXPECT_THAT(Reds("P3 1 1 1023 512 0 1023"), ElementsAre(128));
}

TEST(NetpbmTest, OnlyTheFirstOfSeveralImagesCounts) {
  EXPECT_THAT(Reds("P5 1 1 255\nAP5 1 1 255\nB"), ElementsAre('A'));
}

TEST(NetpbmTest, WhatIsMissingOrWrongIsDamage) {
  for (const std::string& file : std::initializer_list<std::string>{
           "P5 2 2 255\nabc", "P4 9 2\nabc", "P2 2 1 255 1", "P2 2 1 255 1 x", "P2 1 1 255 256", "P1 2 1 12",
           "P6 1 1 0\nabc", "P6 1 1 65536\nabcdef", "P5 1", "P5 -1 1 255\na", "P3 1 1 255 1 2 99999999999",
           "P5 1 1"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeNetpbm(file).status())) << file << DecodeNetpbm(file).status();
    EXPECT_THAT(std::string(DecodeNetpbm(file).status().message()), HasSubstr("truncated or damaged P"));
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeNetpbm("P5 0 1 255\n").status())) << "no pixels";
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeNetpbm("P5 9999999999 2 255\n").status()))
      << "a side beyond the limit";
  const auto small = DecodeNetpbm("P1 60000 60000 1");
  EXPECT_THAT(std::string(small.status().message()), HasSubstr("--max_pixels"))
      << "before any memory is taken";
  for (const char* other : {"P7 1 1", "P0 1 1", "P6x", "P", "hello"})
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeNetpbm(other).status())) << other;
}

TEST(NetpbmTest, AnyBytesAreReadOrRefused) {
  std::mt19937_64 random(test::Seed());
  constexpr std::string_view kLetters("P123456 \n#0199\xff\0", 16);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = absl::StrCat("P", 1 + random() % 6, "\n", random() % 4, " ", random() % 4, "\n");
    for (uint64_t n = random() % 40; n > 0; --n) file.push_back(kLetters[random() % kLetters.size()]);
    const auto image = DecodeAnyImage(file, {.max_pixels = 1 << 20});
    if (!image.ok()) continue;
    ++read;
    EXPECT_EQ(*FindAnyImageSize(file), image->size);
  }
  EXPECT_GT(read, 100);
}

// bmpsuite's badrle.bmp has such pixels; a run beyond its row is cut off, as in Pillow 13.0.
TEST(BmpRunsTest, PixelsBeyondARowAreDamageAndRunsAreCutOff) {
  const auto bmp = [](const std::string& runs) {
    std::string head("BM\0\0\0\0\0\0\0\0\x42\0\0\0\x28\0\0\0\2\0\0\0\1\0\0\0\1\0\x08\0\1\0\0\0", 34);
    head += std::string(12, '\0') + std::string("\3\0\0\0\0\0\0\0", 8);
    for (const char grey : {'\0', '\x64', '\xc8'}) head += std::string(3, grey) + '\0';
    return DecodeBmp(head + runs);
  };
  const auto cut = bmp(std::string("\5\1\0\1", 4));
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->pixels, std::vector<uint8_t>(6, 100));
  const auto beyond = bmp(std::string("\0\3\1\2\1\0\0\1", 8));
  EXPECT_TRUE(absl::IsDataLoss(beyond.status()));
  EXPECT_THAT(std::string(beyond.status().message()), HasSubstr("pixels beyond the end of a row"));
}

TEST(ImageNamesTest, EndingsOfImageFolderAndNetpbmAreImages) {
  for (const char* name :
       {"a.jpg", "B.JPEG", "c.png", "d.webp", "e.bmp", "f.tif", "g.TIFF", "h.ppm", "i.pgm", "j.pbm", ".pnm"})
    EXPECT_TRUE(HasImageName(name)) << name;
  for (const char* name : {"jpg", "a.gif", "a.jpg.txt", "a.", "", "a.svg"})
    EXPECT_FALSE(HasImageName(name)) << name;
  EXPECT_EQ(ImageExtensions(), ".jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff, .ppm, .pgm, .pbm or .pnm");
}

}  // namespace
}  // namespace mtrun::datasets
