#include "datasets/packed/census.h"

#include "base/sha256.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/info.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

constexpr char kJpegHead[] = "\xFF\xD8\xFF", kPngHead[] = "\x89PNG\r\n\x1A\n";

/// Returns bytes that begin like such a file, but cannot be decoded: a census must not decode.
std::string SetFile(const std::string& head, size_t bytes) {
  return head + std::string(bytes - head.size(), 'x');
}

/// Writes one shard of one split.
void AddSplit(const std::string& root, const std::string& split, const std::vector<Record>& records,
              Index& index) {
  std::string shard = EncodeShardHead(std::vector<int64_t>(records.size(), 0), records);
  for (const Record& record : records) shard += record.bytes;
  test::Write(root + "/" + ShardFile(split, 0), shard);
  const auto images = static_cast<int64_t>(records.size());
  index.splits[split] = {.class_counts = {images},
                         .shards = {{images, static_cast<int64_t>(shard.size()), Sha256Hex(shard)}}};
}

TEST(CensusTest, CountsSizesFormatsAndBytesOfAllSplits) {
  const test::TempFolder folder;
  Index index{
      .height = 5000, .width = 5000, .encoded = true, .min_height = 20, .min_width = 20, .classes = {"a"}};
  AddSplit(folder.path(), "train",
           {{SetFile(kJpegHead, 100), {300, 400}},
            {SetFile(kJpegHead, 50), {383, 256}},
            {SetFile("BM", 7), {20, 90}}},
           index);
  AddSplit(folder.path(), "val", {{SetFile(kPngHead, 30), {5000, 4096}}}, index);
  const auto census = TakeCensus(folder.path(), index);
  ASSERT_TRUE(census.ok()) << census.status();
  EXPECT_EQ(census->by_side[SideBin(20)], 1);
  EXPECT_EQ(census->by_side[SideBin(256)], 2);
  EXPECT_EQ(census->by_side[SideBin(4096)], 1);
  EXPECT_EQ(census->jpeg, (FormatCount{2, 150}));
  EXPECT_EQ(census->png, (FormatCount{1, 30}));
  EXPECT_EQ(census->other, (FormatCount{1, 7}));
  EXPECT_EQ(census->smallest, 7);
  EXPECT_EQ(census->median, 30);
  EXPECT_EQ(census->largest, 100);
}

TEST(CensusTest, ErrorNamesADamagedShard) {
  const test::TempFolder folder;
  Index index{.height = 3, .width = 3, .encoded = true, .min_height = 3, .min_width = 3, .classes = {"a"}};
  AddSplit(folder.path(), "train", {{SetFile(kJpegHead, 9), {3, 3}}}, index);
  const std::string shard = folder / ShardFile("train", 0);
  test::Write(shard, test::Read(shard) + "x");
  EXPECT_THAT(std::string(TakeCensus(folder.path(), index).status().message()), HasSubstr(shard));
  test::Write(shard, "");
  EXPECT_THAT(std::string(TakeCensus(folder.path(), index).status().message()), HasSubstr(shard));
}

TEST(CensusTest, EverySideHasABin) {
  for (int side = 1; side <= 5000; ++side) {
    const size_t bin = SideBin(side);
    ASSERT_GE(side, kSideBins[bin]);
    ASSERT_TRUE(bin + 1 == kSideBins.size() || side < kSideBins[bin + 1]) << side;
  }
  EXPECT_EQ(SideBinName(SideBin(31)), "below 32");
  EXPECT_EQ(SideBinName(SideBin(300)), "256 to 383");
  EXPECT_EQ(SideBinName(SideBin(65535)), "4096 or more");
}

TEST(CensusTest, ItsTablesAlignWithin80Columns) {
  Census census{.jpeg = {1300000, 130000000000}, .png = {1, 99}};
  census.smallest = 99, census.median = 98765, census.largest = 12345678;
  census.by_side[SideBin(300)] = 1300000;
  census.by_side[SideBin(600)] = 1;
  EXPECT_EQ(CensusText(census),
            "shorter side          images           share\n"
            "256 to 383         1,300,000         100.0 %  ##############################\n"
            "384 to 511                 0           0.0 %\n"
            "512 to 1023                1           0.0 %  #\n"
            "\n"
            "format                images           bytes\n"
            "JPEG               1,300,000 130,000,000,000\n"
            "PNG                        1              99\n"
            "\n"
            "per image           smallest          median         largest\n"
            "bytes                     99          98,765      12,345,678\n");
}

}  // namespace
}  // namespace mtrun::datasets
