#include "datasets/packed/contact_sheet.h"

#include "base/sha256.h"
#include "datasets/images/png.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/packed_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kPitch = kCellSide + kCellBorder;

/// Returns the red value of a pixel; the images of these tests are grey.
int At(const RgbImage& image, int y, int x) {
  return image
      .pixels[3 * (static_cast<size_t>(y) * static_cast<size_t>(image.size.width) + static_cast<size_t>(x))];
}

RgbImage Grey(const ImageSize& size, uint8_t level) {
  RgbImage image = MakeImage(size);
  std::fill(image.pixels.begin(), image.pixels.end(), level);
  return image;
}

TEST(ContactSheetTest, SpreadsEvenly) {
  EXPECT_THAT(SpreadOver(10, 4), ElementsAre(0, 2, 5, 7));
  EXPECT_THAT(SpreadOver(3, 64), ElementsAre(0, 1, 2));
  EXPECT_THAT(SpreadOver(0, 5), ElementsAre());
  for (int64_t size = 1; size < 60; ++size) {
    const std::vector<int64_t> numbers = SpreadOver(size, 7);
    EXPECT_LT(numbers.back(), size);
    for (size_t i = 1; i < numbers.size(); ++i) EXPECT_GT(numbers[i], numbers[i - 1]);
  }
}

TEST(ContactSheetTest, ImageKeepsItsShape) {
  EXPECT_EQ(FitIntoCell({28, 28}), (ImageSize{96, 96}));
  EXPECT_EQ(FitIntoCell({400, 200}), (ImageSize{96, 48}));
  EXPECT_EQ(FitIntoCell({1, 65535}), (ImageSize{1, 96}));
}

TEST(ContactSheetTest, DrawsPackedPixels) {
  const test::TempFolder folder;
  auto writer = PackedWriter::Create(
      folder / "set", {.height = 4, .width = 2, .classes = {"cat", "dog"}, .splits = {{"train", 5}}}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int64_t i = 0; i < 5; ++i) {
    const std::vector<uint8_t> pixels(24, static_cast<uint8_t>(100 + i));
    ASSERT_TRUE((*writer)->Put("train", i, {i % 2}, pixels).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto split = PackedSplit::Open(folder / "set", "train");
  ASSERT_TRUE(split.ok()) << split.status();
  const auto sheet = MakeContactSheet(*split, 5);
  ASSERT_TRUE(sheet.ok()) << sheet.status();
  EXPECT_EQ(sheet->columns, 3);
  EXPECT_EQ(sheet->picture.size, (ImageSize{2 * kPitch + kCellBorder, 3 * kPitch + kCellBorder}));
  for (int cell = 0; cell < 5; ++cell) {
    const int top = cell / 3 * kPitch + kCellBorder, left = cell % 3 * kPitch + kCellBorder;
    EXPECT_EQ(At(sheet->picture, top, left + 24), 100 + cell);
    EXPECT_EQ(At(sheet->picture, top + 95, left + 71), 100 + cell);
    EXPECT_EQ(At(sheet->picture, top, left + 23), 64) << "twice as high as wide: nothing at the sides";
    EXPECT_EQ(At(sheet->picture, top, left + 72), 64);
  }
  EXPECT_EQ(CellTable(*sheet, *split),
            " row  column         image  class\n"
            "   1       1             0  cat\n"
            "   1       2             1  dog\n"
            "   1       3             2  cat\n"
            "   2       1             3  dog\n"
            "   2       2             4  cat\n");
}

TEST(ContactSheetTest, DrawsFilesAndNamesAnUndecodableOne) {
  const test::TempFolder folder;
  std::vector<Record> records{{EncodePng(Grey({192, 192}, 200)), {192, 192}}, {"no image", {20, 10}}};
  std::string shard = EncodeShardHead({0, 0}, records);
  for (const Record& record : records) shard += record.bytes;
  Index index{
      .height = 192, .width = 192, .encoded = true, .min_height = 20, .min_width = 10, .classes = {"a"}};
  index.splits["train"] = {.class_counts = {2},
                           .shards = {{2, static_cast<int64_t>(shard.size()), Sha256Hex(shard)}}};
  test::Write(folder / ShardFile("train", 0), shard);
  test::Write(folder / kIndexFile, EncodeIndex(index));
  const auto split = PackedSplit::Open(folder.path(), "train");
  ASSERT_TRUE(split.ok()) << split.status();
  const auto sheet = MakeContactSheet(*split, 1);
  ASSERT_TRUE(sheet.ok()) << sheet.status();
  EXPECT_EQ(sheet->picture.size, (ImageSize{100, 100}));
  EXPECT_EQ(At(sheet->picture, 1, 50), 64);
  EXPECT_EQ(At(sheet->picture, 2, 2), 200);
  EXPECT_EQ(At(sheet->picture, 97, 97), 200);
  EXPECT_THAT(std::string(MakeContactSheet(*split, 2).status().message()), HasSubstr("image 1"));
}

}  // namespace
}  // namespace mtrun::datasets
