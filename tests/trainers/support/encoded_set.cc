#include "tests/trainers/support/encoded_set.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/splitmix.h"
#include "datasets/images/jpeg.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/index.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::trainers::testing {
namespace {

constexpr int kClasses = 10;

/// Returns `value` with noise, which differs from its neighbours in every direction.
uint8_t WithNoise(uint8_t value, int64_t number, int y, int x, int c) {
  const auto place = static_cast<uint64_t>(((number * 1024 + y) * 1024 + x) * 3 + c);
  return static_cast<uint8_t>(value / 2 + SplitMix64(place) % 120);
}

datasets::RgbImage Draw(int64_t number, int scale) {
  const auto side = [&](int64_t step) { return static_cast<int>(40 + number * step % 40) * scale; };
  datasets::RgbImage image = datasets::MakeImage({side(7), side(11)});
  auto* out = image.pixels.data();
  for (int y = 0; y < image.size.height; ++y) {
    for (int x = 0; x < image.size.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const uint8_t value = LearnablePixel(number, number % kClasses, 32 * y / image.size.height,
                                             32 * x / image.size.width, c);
        *out++ = scale > 1 ? WithNoise(value, number, y, x, c) : value;
      }
    }
  }
  return image;
}

/// Writes images first .. first + count - 1.
datasets::ShardEntry WriteShard(const std::string& path, int64_t first, int64_t count, int scale,
                                std::vector<int64_t>& class_counts) {
  std::vector<datasets::Record> records;
  std::vector<int64_t> labels;
  for (int64_t i = first; i < first + count; ++i) {
    const datasets::RgbImage image = Draw(i, scale);
    records.push_back({datasets::EncodeJpeg(image, 90), image.size});
    labels.push_back(i % kClasses);
    ++class_counts[static_cast<size_t>(labels.back())];
  }
  std::string shard = datasets::EncodeShardHead(labels, records);
  for (const datasets::Record& record : records) shard += record.bytes;
  EXPECT_TRUE(WriteFileAtomically(path, shard).ok());
  return {.images = count, .bytes = static_cast<int64_t>(shard.size()), .sha256 = Sha256Hex(shard)};
}

datasets::SplitEntry WriteSplit(const std::string& path, const std::string& split, int64_t first,
                                const std::vector<int64_t>& counts, int scale) {
  EXPECT_TRUE(MakeFolders(absl::StrCat(path, "/", split)).ok());
  datasets::SplitEntry entry{.class_counts = std::vector<int64_t>(kClasses), .shards = {}};
  for (const int64_t count : counts) {
    const std::string file = absl::StrCat(path, "/", datasets::ShardFile(split, entry.shards.size()));
    entry.shards.push_back(WriteShard(file, first, count, scale, entry.class_counts));
    first += count;
  }
  return entry;
}

}  // namespace

std::string WriteEncodedSet(const std::string& folder, const std::string& name,
                            const std::vector<int64_t>& train, int64_t test, int scale) {
  const std::string path = absl::StrCat(folder, "/", name);
  datasets::Index index{.height = 79 * scale,
                        .width = 79 * scale,
                        .encoded = true,
                        .min_height = 40 * scale,
                        .min_width = 40 * scale,
                        .classes = {}};
  for (int c = 0; c < kClasses; ++c) index.classes.push_back(absl::StrCat("class", c));
  index.splits["train"] = WriteSplit(path, "train", 0, train, scale);
  index.splits["test"] = WriteSplit(path, "test", 10000, {test}, scale);
  EXPECT_TRUE(WriteFileAtomically(path + "/index.json", datasets::EncodeIndex(index)).ok());
  return path;
}

}  // namespace mtrun::trainers::testing
