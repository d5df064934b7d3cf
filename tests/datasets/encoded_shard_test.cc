#include "datasets/packed/encoded_shard.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

std::string Shard() {
  const std::vector<Record> records{{"first", {2, 3}}, {"two", {40, 50}}, {"3", {1, 65535}}};
  return EncodeShardHead({1, 0, 1}, records) + "firsttwo3";
}

absl::Span<const uint8_t> Span(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

TEST(EncodedShardTest, ReadsBack) {
  const std::string bytes = Shard();
  const auto shard = ParseEncodedShard(Span(bytes), 3);
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(shard->label(0), 1);
  EXPECT_EQ(shard->label(1), 0);
  EXPECT_EQ(shard->size(2), (ImageSize{1, 65535}));
  EXPECT_EQ(shard->record(1), "two");
  EXPECT_EQ(bytes.size() % 8, 1u);  // the nine bytes of the images are at the end
}

TEST(EncodedShardTest, InconsistentShardIsRefused) {
  const std::string bytes = Shard();
  EXPECT_FALSE(ParseEncodedShard(Span(bytes), 2).ok());
  const size_t data = bytes.size() - 9 - 24 - 32 - 24;  // labels, offsets, sizes, bytes
  const auto broken = [&](size_t at, char value) {
    std::string copy = bytes;
    copy[at] = value;
    return std::string(ParseEncodedShard(Span(copy), 3).status().message());
  };
  EXPECT_THAT(broken(data + 24, 1), HasSubstr("begin at 0"));
  EXPECT_THAT(broken(data + 32, 0), HasSubstr("image 0 ends at byte 0"));
  EXPECT_THAT(broken(data + 40, 100), HasSubstr("image 1 ends at byte 100"));
  EXPECT_THAT(broken(data + 48, 8), HasSubstr("ends at byte 8"));
  EXPECT_THAT(broken(data + 56, 0), HasSubstr("0x3"));
}

/// The file is mapped, and another process writes to it.
TEST(EncodedShardTest, WritesAfterTheCheckCauseNoOutOfBoundsRead) {
  const std::string original = Shard();
  const size_t data = original.size() - 9 - 24 - 32 - 24;
  for (const char value : {'\xff', '\x7f', '\x10', '\0'}) {
    std::string bytes = original;
    const auto shard = ParseEncodedShard(Span(bytes), 3);
    ASSERT_TRUE(shard.ok()) << shard.status();
    for (size_t at = data + 24; at < data + 24 + 32 + 24; ++at) {
      bytes[at] = value;
      for (int64_t i = 0; i < 3; ++i) {
        const std::string_view record = shard->record(i);
        const bool inside = record.empty() || (record.data() >= bytes.data() + data + 80 &&
                                               record.data() + record.size() <= bytes.data() + bytes.size());
        ASSERT_TRUE(inside) << i << " with byte " << at << " written";
      }
    }
    EXPECT_EQ(shard->record(1), "");
    EXPECT_EQ(shard->size(0), (ImageSize{2, 3}));
    EXPECT_EQ(shard->size(2), (ImageSize{1, 65535}));
  }
}

TEST(EncodedShardTest, RandomDamageNeverCrashes) {
  std::mt19937_64 random(test::Seed());
  const std::string original = Shard();
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = original;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto shard = ParseEncodedShard(Span(bytes), 3);
    if (!shard.ok()) continue;
    size_t sum = 0;
    for (int64_t i = 0; i < 3; ++i) {
      for (const uint8_t byte : shard->record(i)) sum += byte;
    }
    EXPECT_GT(sum, 0u);
  }
}

}  // namespace
}  // namespace mtrun::datasets
