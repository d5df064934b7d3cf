#include "datasets/packed/packed.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/index.h"
#include "datasets/packed/packed_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/support/peers_python.h"
#include "tests/support/status.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// Five images of 2x3 in shards of two; image i is filled with 10 * i.
class PackedTest : public testing::Test {
 protected:
  PackedTest() {
    auto writer = PackedWriter::Create(
        root_, {.height = 2, .width = 3, .classes = {"a", "b", "c"}, .splits = {{"train", 5}, {"test", 1}}},
        {.shard_bytes = 2 * 26});
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (int64_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(
          (*writer)->Put("train", i, {i % 3}, std::vector<uint8_t>(18, static_cast<uint8_t>(10 * i))).ok());
    }
    EXPECT_TRUE((*writer)->Put("test", 0, {2}, std::vector<uint8_t>(18, 7)).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
  }

  /// Replaces the shard's file by a new one with these bytes.
  void Copy(const std::string& bytes) const {
    test::Write(folder_ / "copy", bytes);
    fs::rename(folder_ / "copy", shard_);
  }
  std::string OpenError(bool verify = false) {
    const auto split = PackedSplit::Open(root_, "train", verify);
    EXPECT_FALSE(split.ok());
    return split.ok() ? "" : std::string(split.status().message());
  }

  const test::TempFolder folder_;
  const std::string root_ = folder_ / "set";
  const std::string shard_ = root_ + "/train/shard_00001.safetensors";
};

TEST_F(PackedTest, ReadsBack) {
  for (const bool verify : {false, true}) {
    auto split = PackedSplit::Open(root_, "train", verify);
    ASSERT_TRUE(split.ok()) << split.status();
    const PackedSplit moved = *std::move(split);
    EXPECT_EQ(moved.size(), 5);
    EXPECT_THAT(moved.shard_counts(), ElementsAre(2, 2, 1));
    for (int64_t i = 0; i < 5; ++i) moved.WillNeed(i);
    EXPECT_EQ(moved.height(), 2);
    EXPECT_EQ(moved.width(), 3);
    EXPECT_THAT(moved.class_names(), ElementsAre("a", "b", "c"));
    for (int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(moved.label(i), i % 3);
      EXPECT_THAT(moved.image(i), testing::SizeIs(18));
      EXPECT_THAT(moved.image(i), testing::Each(10 * i));
    }
  }
  const auto test = PackedSplit::Open(root_, "test");
  ASSERT_TRUE(test.ok());
  EXPECT_EQ(test->digest(), IndexDigest(*ReadIndex(root_)));
}

TEST_F(PackedTest, CheckedLabelsDoNotChangeWithTheFile) {
  const auto split = PackedSplit::Open(root_, "train");
  ASSERT_TRUE(split.ok()) << split.status();
  // The two images of 18 bytes may be before or after the labels: overwrite everything after the header.
  const auto end = static_cast<std::streamoff>(fs::file_size(shard_));
  std::fstream(shard_).seekp(end - 2 * 26).write(std::string(2 * 26, '\xff').data(), 2 * 26);
  EXPECT_EQ(split->image(2)[0], 255) << "it is mapped";
  EXPECT_EQ(split->label(2), 2);
  EXPECT_EQ(split->label(3), 0);
}

TEST_F(PackedTest, RestrictedSplitCountsTheRestOfEachShard) {
  auto whole = PackedSplit::Open(root_, "train");
  ASSERT_TRUE(whole.ok()) << whole.status();
  const PackedSplit some = (*std::move(whole)).Restricted({0, 1, 4});
  EXPECT_EQ(some.size(), 3);
  EXPECT_THAT(some.shard_counts(), ElementsAre(2, 0, 1));
  EXPECT_EQ(some.image(2)[0], 40);
}

TEST_F(PackedTest, ShardsAreAddedOneByOne) {
  const fs::path aside = folder_ / "aside";
  fs::rename(shard_, aside);
  auto split = PackedSplit::OpenIndex(root_, "train");
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->name(), "train");
  EXPECT_EQ(split->size(), 5);
  EXPECT_THAT(split->shard_counts(), ElementsAre(2, 2, 1));
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_FALSE(split->has(i));
    EXPECT_EQ(split->shard_of(i), static_cast<size_t>(i / 2));
  }
  ASSERT_TRUE(split->Add(2).ok());
  EXPECT_TRUE(split->has(4));
  EXPECT_FALSE(split->has(3));
  EXPECT_EQ(split->image(4)[0], 40);

  const absl::Status missing = split->Add(1);
  EXPECT_TRUE(absl::IsDataLoss(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("shard_00001"));
  EXPECT_FALSE(split->has(2));
  fs::rename(aside, shard_);
  ASSERT_TRUE(split->Add(1).ok());
  ASSERT_TRUE(split->Add(1).ok()) << "once more";
  EXPECT_EQ(split->label(3), 0);
  EXPECT_EQ(split->image(3)[0], 30);
}

TEST_F(PackedTest, ShardIsDroppedUnlessHeld) {
  auto split = PackedSplit::OpenIndex(root_, "train");
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_FALSE(split->Hold({4}).has_value()) << "not there";
  for (const size_t number : {0, 1, 2}) {
    EXPECT_FALSE(split->has_all());
    ASSERT_TRUE(split->Add(number).ok());
  }
  EXPECT_TRUE(split->has_all());
  {
    const auto held = split->Hold({2, 3, 4});
    ASSERT_TRUE(held.has_value());
    EXPECT_EQ(held->size(), 2u) << "shards";
    EXPECT_FALSE(split->Drop(1));
    EXPECT_FALSE(split->Drop(2));
    EXPECT_TRUE(split->Drop(0));
    EXPECT_TRUE(split->Drop(0)) << "once more";
    EXPECT_FALSE(split->has(1));
    EXPECT_FALSE(split->has_all());
    EXPECT_EQ(split->image(4)[0], 40);
  }
  EXPECT_TRUE(split->Drop(1));
  EXPECT_FALSE(split->Hold({2}).has_value());
  ASSERT_TRUE(split->Add(1).ok());
  EXPECT_EQ(split->image(3)[0], 30);

  const auto whole = PackedSplit::Open(root_, "train");
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(whole->has_all());
  EXPECT_TRUE(whole->Hold({0, 4}).has_value());
}

TEST_F(PackedTest, NewCopyOfAShardIsVisibleToItsHolder) {
  auto split = PackedSplit::OpenIndex(root_, "train");
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_TRUE(split->Add(1).ok());
  const auto held = split->Hold({2});
  const absl::Span<const uint8_t> seen = split->image(2);
  const std::string bytes = test::Read(shard_);
  constexpr size_t kPixels = 2 * 18;  // at the end of the file
  Copy(bytes.substr(0, bytes.size() - kPixels) + std::string(kPixels, 'x'));
  ASSERT_TRUE(split->Replace(1).ok());
  EXPECT_EQ(seen[0], 'x');
  Copy(bytes);
  ASSERT_TRUE(split->Replace(1).ok());
  EXPECT_THAT(seen, testing::Each(20));
  Copy(bytes + "more");
  const absl::Status other = split->Replace(1);
  EXPECT_TRUE(absl::IsDataLoss(other)) << other;
  EXPECT_THAT(seen, testing::Each(20));
  Copy(std::string(bytes.size(), 'x'));
  const absl::Status none = split->Replace(1);
  EXPECT_TRUE(absl::IsDataLoss(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("shard_00001"));
  EXPECT_TRUE(split->Replace(0).ok()) << "it was not added";
  EXPECT_FALSE(split->has(0));
}

TEST_F(PackedTest, LabelsOfADamagedShardAreReplacedByTheNewCopys) {
  const std::string bytes = test::Read(shard_);
  std::string damaged = bytes;
  damaged[damaged.size() - 2 * 18 - 16] = 1;  // first label of the shard: wrong, but valid
  test::Write(shard_, damaged);
  auto split = PackedSplit::OpenIndex(root_, "train");
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_TRUE(split->Add(1).ok());
  EXPECT_EQ(split->label(2), 1);
  {
    const auto held = split->Hold({2});
    Copy(bytes);
    ASSERT_TRUE(split->Replace(1).ok());
    EXPECT_EQ(split->label(2), 2);
    EXPECT_EQ(split->label(3), 0);
    EXPECT_FALSE(split->Drop(1)) << "who holds the shard reads the other copy";
  }
  EXPECT_TRUE(split->Drop(1));
}

TEST_F(PackedTest, SizesAndOffsetsOfADamagedShardAreReplacedByTheNewCopys) {
  const auto shard = [](const Record& first, const Record& second) {
    return EncodeShardHead({0, 1}, {first, second}) + first.bytes + second.bytes;
  };
  const std::string bytes = shard({"one", {20, 30}}, {"other", {30, 20}});
  Index index{
      .height = 30, .width = 30, .encoded = true, .min_height = 20, .min_width = 20, .classes = {"a", "b"}};
  index.splits["train"] = {
      .class_counts = {1, 1},
      .shards = {{.images = 2, .bytes = static_cast<int64_t>(bytes.size()), .sha256 = std::string(64, '0')}}};
  const std::string root = folder_ / "encoded", path = root + "/" + ShardFile("train", 0);
  test::Write(root + "/index.json", EncodeIndex(index));
  test::Write(path, shard({"oneo", {30, 20}}, {"ther", {20, 30}}));
  auto split = PackedSplit::OpenIndex(root, "train");
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_TRUE(split->Add(0).ok());
  EXPECT_EQ(split->image_size(0), (ImageSize{30, 20}));
  EXPECT_EQ(split->record(0), "oneo");
  test::Write(folder_ / "copy", bytes);
  fs::rename(folder_ / "copy", path);
  ASSERT_TRUE(split->Replace(0).ok());
  EXPECT_EQ(split->image_size(0), (ImageSize{20, 30}));
  EXPECT_EQ(split->record(0), "one");
  EXPECT_EQ(split->record(1), "other");
}

/// Trainers reserve memory for the largest image that the index names.
TEST_F(PackedTest, ImageOutsideTheSizesOfTheIndexIsRefused) {
  Index index{
      .height = 40, .width = 30, .encoded = true, .min_height = 20, .min_width = 10, .classes = {"a", "b"}};
  const std::string root = folder_ / "encoded";
  const auto add = [&](ImageSize size) {
    const std::string bytes = EncodeShardHead({0, 1}, {{"one", {20, 10}}, {"other", size}}) + "oneother";
    index.splits["train"] = {
        .class_counts = {1, 1},
        .shards = {
            {.images = 2, .bytes = static_cast<int64_t>(bytes.size()), .sha256 = std::string(64, '0')}}};
    test::Write(root + "/index.json", EncodeIndex(index));
    test::Write(root + "/" + ShardFile("train", 0), bytes);
    auto split = PackedSplit::OpenIndex(root, "train");
    return split.ok() ? split->Add(0) : split.status();
  };
  EXPECT_TRUE(add({40, 30}).ok());
  EXPECT_TRUE(add({20, 10}).ok());
  for (const ImageSize size : {ImageSize{41, 30}, ImageSize{40, 31}, ImageSize{19, 10}, ImageSize{20, 9}}) {
    EXPECT_THAT(add(size), support::StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr("outside the range of sizes in the index")))
        << size.height << "x" << size.width;
  }
}

TEST_F(PackedTest, AccessToAMissingShardAborts) {
  const auto split = PackedSplit::OpenIndex(root_, "train");
  ASSERT_TRUE(split.ok());
  EXPECT_DEATH(static_cast<void>(split->label(0)), "shard 0 of train is not available");
}

TEST_F(PackedTest, ErrorForAnUnknownSplitListsTheSplits) {
  const auto split = PackedSplit::Open(root_, "val");
  EXPECT_TRUE(absl::IsNotFound(split.status()));
  EXPECT_THAT(std::string(split.status().message()), HasSubstr("test, train"));
}

TEST_F(PackedTest, MissingDataSetIsAnError) {
  EXPECT_TRUE(absl::IsNotFound(PackedSplit::Open(folder_ / "none", "train").status()));
}

TEST_F(PackedTest, ErrorNamesATruncatedShard) {
  std::filesystem::resize_file(shard_, std::filesystem::file_size(shard_) - 1);
  EXPECT_TRUE(absl::IsDataLoss(PackedSplit::Open(root_, "train").status()));
  EXPECT_THAT(OpenError(), HasSubstr("shard_00001"));
  EXPECT_THAT(OpenError(), HasSubstr("the index says"));
}

TEST_F(PackedTest, ErrorNamesAMissingShard) {
  std::filesystem::remove(shard_);
  EXPECT_THAT(OpenError(), HasSubstr("shard_00001"));
}

TEST_F(PackedTest, VerifyDetectsChangedPixels) {
  std::string bytes = test::Read(shard_);
  bytes.back() ^= 1;
  test::Write(shard_, bytes);
  EXPECT_TRUE(PackedSplit::Open(root_, "train").ok());
  EXPECT_THAT(OpenError(true), HasSubstr("SHA-256"));
}

TEST_F(PackedTest, LabelBeyondTheClassesIsRefused) {
  std::string bytes = test::Read(shard_);
  bytes[bytes.size() - 2 * 18 - 16] = 3;  // first label of the shard
  test::Write(shard_, bytes);
  EXPECT_THAT(OpenError(), HasSubstr("label 3"));
}

TEST_F(PackedTest, ShardWithAnotherShapeIsRefused) {
  std::string bytes = test::Read(shard_);
  const size_t at = bytes.find("[2,2,3,3]");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 9, "[2,3,2,3]");
  test::Write(shard_, bytes);
  EXPECT_THAT(OpenError(), HasSubstr("images"));
}

TEST_F(PackedTest, RandomDamageNeverCrashes) {
  std::mt19937_64 random(test::Seed());
  const std::string original = test::Read(shard_);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = original;
    for (uint64_t n = 1 + random() % 3; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    test::Write(shard_, bytes);
    const auto split = PackedSplit::Open(root_, "train");
    if (!split.ok()) continue;
    for (int64_t i = 0; i < split->size(); ++i) {
      EXPECT_LT(split->label(i), 3);
      EXPECT_EQ(split->image(i).size(), 18u);
    }
  }
}

TEST_F(PackedTest, OutOfRangeAborts) {
  const auto split = PackedSplit::Open(root_, "train");
  ASSERT_TRUE(split.ok());
  EXPECT_DEATH((void)split->image(5), "image 5 of 5");
  EXPECT_DEATH((void)split->label(-1), "image -1");
}

TEST_F(PackedTest, PythonOpensAShardInOneLine) {
  const std::string python = support::PeersPython();
  if (python.empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
  const std::string script = python + " -c \"from safetensors.numpy import load_file; t = load_file('" +
                             shard_ +
                             "'); assert t['images'].shape == (2, 2, 3, 3) and t['images'][1].max() == 30 "
                             "and list(t['labels']) == [2, 0]\"";
  EXPECT_EQ(std::system(script.c_str()), 0);
}

}  // namespace
}  // namespace mtrun::datasets
