#include "datasets/packed/packed_writer.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "base/sha256.h"
#include "datasets/packed/packed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/support/sync_log.h"

namespace mtrun::datasets {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kSmallImage = 3 * 2 * 2;

PackedShape Shape(int64_t train, int64_t test) {
  return {.height = 2, .width = 2, .classes = {"a", "b"}, .splits = {{"train", train}, {"test", test}}};
}

std::vector<uint8_t> Pixels(int64_t first, int64_t count) {
  std::vector<uint8_t> pixels;
  for (int64_t i = first; i < first + count; ++i)
    pixels.insert(pixels.end(), kSmallImage, static_cast<uint8_t>(i));
  return pixels;
}

absl::Status PutOne(PackedWriter& writer, const std::string& split, int64_t i) {
  return writer.Put(split, i, {i % 2}, Pixels(i, 1));
}

TEST(PackedWriterTest, ReaderReadsItsOutput) {
  const test::TempFolder folder;
  // 20 bytes per image with its label: 3 per shard.
  auto writer = PackedWriter::Create(folder / "d", Shape(8, 1), {.shard_bytes = 60});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)
                  ->Put("train", 1, std::vector<int64_t>{1, 0, 1, 0, 1, 0, 1}, Pixels(1, 7))
                  .ok());  // crosses shards
  ASSERT_TRUE(PutOne(**writer, "train", 0).ok());
  ASSERT_TRUE(PutOne(**writer, "test", 0).ok());
  EXPECT_THAT(test::Names(folder.path()), testing::Not(testing::Contains("d")));
  const auto index = (*writer)->Finish();
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(index->splits.at("train").class_counts, ElementsAre(4, 4));
  EXPECT_EQ(index->splits.at("train").shards.size(), 3u);
  EXPECT_THAT(test::Names(folder / "d/train"),
              ElementsAre("shard_00000.safetensors", "shard_00001.safetensors", "shard_00002.safetensors"));
  const auto split = PackedSplit::Open(folder / "d", "train", true);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->size(), 8);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(split->label(i), i % 2);
    EXPECT_THAT(split->image(i), testing::ElementsAreArray(Pixels(i, 1)));
  }
  EXPECT_EQ(split->digest(), IndexDigest(*index));
}

TEST(PackedWriterTest, ShardsAreOnTheDiskBeforeTheSetHasItsName) {
  const test::TempFolder folder;
  auto writer = PackedWriter::Create(folder / "d", Shape(4, 1), {.shard_bytes = 60});
  ASSERT_TRUE(writer.ok()) << writer.status();
  support::SyncLog log(folder.path());
  for (int64_t i = 0; i < 4; ++i) ASSERT_TRUE(PutOne(**writer, "train", i).ok());
  ASSERT_TRUE(PutOne(**writer, "test", 0).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const std::vector<std::string> synced = log.Take();
  for (const char* name : {"/train/shard_00000.safetensors", "/train/shard_00001.safetensors",
                           "/test/shard_00000.safetensors", "/train", "/test"})
    EXPECT_THAT(synced, Contains(AllOf(StartsWith("."), EndsWith(name)))) << name;
  EXPECT_THAT(synced, Each(Not(StartsWith("d/"))));
  EXPECT_EQ(synced.back(), ".");
}

std::map<std::string, std::string> WrittenBy(int threads, uint64_t seed) {
  const test::TempFolder folder;
  auto writer = PackedWriter::Create(folder / "d", Shape(200, 30), {.shard_bytes = 400});
  EXPECT_TRUE(writer.ok());
  std::vector<int64_t> order(200);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  {
    std::vector<std::jthread> pool;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        for (size_t i = t; i < order.size(); i += threads) {
          EXPECT_TRUE(PutOne(**writer, "train", order[i]).ok());
          if (order[i] < 30) {
            EXPECT_TRUE(PutOne(**writer, "test", order[i]).ok());
          }
        }
      });
    }
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  return test::ReadTree(folder / "d");
}

TEST(PackedWriterTest, OrderAndThreadsDoNotMatter) {
  const uint64_t seed = test::Seed();
  const auto one = WrittenBy(1, seed);
  EXPECT_EQ(one.size(), 10u + 2 + 1);
  EXPECT_EQ(WrittenBy(4, seed + 1), one);
  EXPECT_EQ(WrittenBy(7, seed + 2), one);
}

TEST(PackedWriterTest, GapsAreClosed) {
  const test::TempFolder folder;
  const auto make = [&](const std::string& name, int64_t train, int64_t test) {
    return *PackedWriter::Create(folder / name, Shape(train, test), {.shard_bytes = 60});
  };
  // 3 per shard: in train, one shard is complete, one is empty, one has a gap; test has no images.
  const auto writer = make("gaps", 11, 2);
  const std::vector<int64_t> put{0, 1, 2, 6, 8, 9, 10};
  for (const int64_t i : put) ASSERT_TRUE(PutOne(*writer, "train", i).ok());
  ASSERT_TRUE(writer->CloseGaps().ok());
  const auto index = writer->Finish();
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->splits.count("test"), 0u);
  EXPECT_THAT(test::Names(folder / "gaps"), ElementsAre("index.json", "train"));
  EXPECT_EQ(test::Names(folder / "gaps/train").size(), 3u);
  const auto split = PackedSplit::Open(folder / "gaps", "train", true);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->size(), 7);
  for (size_t i = 0; i < put.size(); ++i) {
    EXPECT_EQ(split->label(static_cast<int64_t>(i)), put[i] % 2);
    EXPECT_THAT(split->image(static_cast<int64_t>(i)), testing::ElementsAreArray(Pixels(put[i], 1)));
  }
  const auto nothing = make("nothing", 2, 1);
  ASSERT_TRUE(PutOne(*nothing, "test", 0).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(nothing->CloseGaps()));
}

// The bytes of a tiny data set, so that a change of the format is noticed.
TEST(PackedWriterTest, GoldenBytes) {
  const test::TempFolder folder;
  auto writer = PackedWriter::Create(
      folder / "d", {.height = 1, .width = 2, .classes = {"no", "yes"}, .splits = {{"train", 2}}}, {});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Put("train", 0, {1, 0}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const std::string json =
      R"({"__metadata__":{"format":"mtrun-packed"},"labels":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
      R"("images":{"dtype":"U8","shape":[2,1,2,3],"data_offsets":[16,28]}})";
  const size_t padded = (8 + json.size() + 63) / 64 * 64 - 8;
  std::string expected = std::string(1, static_cast<char>(padded)) + std::string(7, '\0') + json +
                         std::string(padded - json.size(), ' ');
  expected += std::string("\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16) + "\1\2\3\4\5\6\7\10\11\12\13\14";
  EXPECT_EQ(test::Read(folder / "d/train/shard_00000.safetensors"), expected);
  const auto index = ReadIndex(folder / "d");
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->splits.at("train").shards[0].sha256, Sha256Hex(expected));
  EXPECT_EQ(IndexDigest(*index), "42ac772fc947341d17572326112155784d09761c5f7ac614fc962988beccb4d6");
}

TEST(PackedWriterTest, NothingIsKeptWithoutFinish) {
  const test::TempFolder folder;
  {
    auto writer = PackedWriter::Create(folder / "d", Shape(2, 1), {});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(PutOne(**writer, "train", 0).ok());
  }
  EXPECT_THAT(test::Names(folder.path()), IsEmpty());
}

TEST(PackedWriterTest, BadShapesAreRefused) {
  const test::TempFolder folder;
  const auto refused = [&](PackedShape shape) {
    const auto writer = PackedWriter::Create(folder / "d", shape, {});
    return absl::IsInvalidArgument(writer.status());
  };
  EXPECT_TRUE(refused(Shape(0, 1)));
  EXPECT_TRUE(refused({.height = 0, .width = 2, .classes = {"a"}, .splits = {{"train", 1}}}));
  EXPECT_TRUE(refused({.height = 2, .width = 70000, .classes = {"a"}, .splits = {{"train", 1}}}));
  EXPECT_TRUE(refused({.height = 2, .width = 2, .classes = {}, .splits = {{"train", 1}}}));
  EXPECT_TRUE(refused({.height = 2, .width = 2, .classes = {"a", "a"}, .splits = {{"train", 1}}}));
  EXPECT_TRUE(refused({.height = 2, .width = 2, .classes = {"\xFF"}, .splits = {{"train", 1}}}));
  EXPECT_TRUE(refused({.height = 2, .width = 2, .classes = {"a"}, .splits = {}}));
  EXPECT_THAT(test::Names(folder.path()), IsEmpty());
}

TEST(PackedWriterTest, LackOfDiskSpaceIsDetectedBeforehand) {
  const test::TempFolder folder;
  PackedShape shape = Shape(int64_t{1} << 40, 1);
  shape.height = shape.width = 1024;
  const auto writer = PackedWriter::Create(folder / "d", shape, {});
  EXPECT_TRUE(absl::IsResourceExhausted(writer.status())) << writer.status();
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("MiB free"));
  EXPECT_THAT(test::Names(folder.path()), IsEmpty());
}

TEST(PackedWriterDeathTest, MisuseAborts) {
  const test::TempFolder folder;
  auto writer = PackedWriter::Create(folder / "d", Shape(2, 1), {});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(PutOne(**writer, "train", 0).ok());
  EXPECT_DEATH((void)(*writer)->Put("train", 2, {0}, Pixels(0, 1)), "train 2");
  EXPECT_DEATH((void)(*writer)->Put("train", 1, {2}, Pixels(0, 1)), "invariant");
  EXPECT_DEATH((void)(*writer)->Put("other", 0, {0}, Pixels(0, 1)), "split other");
  EXPECT_DEATH((void)(*writer)->Finish(), "never added");
}

}  // namespace
}  // namespace mtrun::datasets
