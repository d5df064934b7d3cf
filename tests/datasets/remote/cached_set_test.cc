#include "datasets/remote/cached_set.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/posix.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::HasSubstr;

Index SmallIndex() {
  Index index{.height = 2, .width = 2, .classes = {"a"}};
  index.splits["train"] = {.class_counts = {1},
                           .shards = {{.images = 1, .bytes = 5, .sha256 = std::string(64, '1')}}};
  return index;
}

TEST(CachedSetTest, IsCreatedFromItsIndexAndRemembered) {
  const test::TempFolder cache;
  const auto set = CachedSet::Make(cache.path(), EncodeIndex(SmallIndex()));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->digest(), IndexDigest(SmallIndex()));
  EXPECT_TRUE(ReadIndex(cache / set->digest()).ok());
  EXPECT_EQ(set->Find("x"), nullptr);
  ASSERT_NE(set->Find("train/shard_00000.safetensors"), nullptr);
  EXPECT_FALSE(CachedSet::Remembered(cache.path(), "u").ok());
  ASSERT_TRUE(set->Remember(cache.path(), "u").ok());
  EXPECT_EQ(CachedSet::Remembered(cache.path(), "u")->digest(), set->digest());
  EXPECT_FALSE(CachedSet::Make(cache.path(), "{}").ok());
}

TEST(CachedSetTest, AnotherUsersMemoryIsNotUsed) {
  const test::TempFolder cache;
  const auto set = CachedSet::Make(cache.path(), EncodeIndex(SmallIndex()));
  ASSERT_TRUE(set.ok() && set->Remember(cache.path(), "u").ok());
  namespace fs = std::filesystem;
  fs::permissions(cache.path(), fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec);
  EXPECT_TRUE(CachedSet::Remembered(cache.path(), "u").ok());
  fs::permissions(cache / "sources", fs::perms::all);
  EXPECT_TRUE(absl::IsNotFound(CachedSet::Remembered(cache.path(), "u").status()));
}

TEST(CachedSetTest, ForgedIndexIsReplaced) {
  const test::TempFolder cache;
  Index other = SmallIndex();
  other.classes = {"b"};
  const std::string folder = cache / IndexDigest(SmallIndex());
  ASSERT_TRUE(MakeFolders(folder).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/index.json", EncodeIndex(other)).ok());
  ASSERT_TRUE(CachedSet::Make(cache.path(), EncodeIndex(SmallIndex())).ok());
  EXPECT_EQ(IndexDigest(*ReadIndex(folder)), IndexDigest(SmallIndex()));
}

TEST(CachedSetTest, KnownSetIsNotRewritten) {
  const test::TempFolder cache;
  const auto set = CachedSet::Make(cache.path(), EncodeIndex(SmallIndex()));
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_TRUE(set->Remember(cache.path(), "u").ok());
  const auto written = [&] {
    struct stat info {};
    EXPECT_EQ(stat((cache / ("sources/" + Sha256Hex("u"))).c_str(), &info), 0);
    return info.st_ino;
  };
  const ino_t first = written();
  ASSERT_TRUE(set->Remember(cache.path(), "u").ok());
  EXPECT_EQ(written(), first) << "a full disk would refuse it";
  Index other = SmallIndex();
  other.classes = {"b"};
  const auto next = CachedSet::Make(cache.path(), EncodeIndex(other));
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_TRUE(next->Remember(cache.path(), "u").ok());
  EXPECT_EQ(CachedSet::Remembered(cache.path(), "u")->digest(), next->digest());
}

/// Returns a shard's name in a cache.
std::string InSet(size_t shard) { return std::string(64, '5') + "/" + ShardFile("train", shard); }

TEST(MakeRoomTest, ForeignFilesNeitherCountNorAreRemoved) {
  const test::TempFolder cache;
  for (const char* name : {"photos/2019/a.jpg", "notes/x/y.txt", "photos/train/shard_00000.safetensors"})
    test::Write(cache / name, std::string(100, 'x'));
  const auto all = [](const std::string&) { return true; };
  const auto others = test::ReadTree(cache.path());
  EXPECT_TRUE(MakeRoom(cache.path(), 1, 1, false, all).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(MakeRoom(cache.path(), 1, 0, /*full=*/true, all)));
  EXPECT_EQ(test::ReadTree(cache.path()), others);
  test::Write(cache / InSet(0), std::string(100, 'x'));
  EXPECT_TRUE(MakeRoom(cache.path(), 1, 0, /*full=*/true, all).ok());
  EXPECT_EQ(test::ReadTree(cache.path()), others);
}

TEST(MakeRoomTest, LeastRecentlyUsedIsRemovedAndNeededFilesAreKept) {
  const test::TempFolder cache;
  for (size_t i = 0; i < 3; ++i) test::Write(cache / InSet(i), std::string(100, 'x'));
  const auto all = [](const std::string&) { return true; };
  EXPECT_TRUE(MakeRoom(cache.path(), 1000, 0, false, all).ok());  // no limit
  EXPECT_TRUE(MakeRoom(cache.path(), 100, 400, false, all).ok());
  EXPECT_EQ(CachedFiles(cache.path()).size(), 3u);
  EXPECT_TRUE(MakeRoom(cache.path(), 100, 300, false, all).ok());
  EXPECT_EQ(CachedFiles(cache.path()).size(), 2u);
  const absl::Status none = MakeRoom(cache.path(), 200, 300, false, [](const std::string&) { return false; });
  EXPECT_TRUE(absl::IsResourceExhausted(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("--cache_gib"));
  EXPECT_EQ(CachedFiles(cache.path()).size(), 2u);
  EXPECT_TRUE(MakeRoom(cache.path(), 50, 0, /*full=*/true, all).ok());
  EXPECT_EQ(CachedFiles(cache.path()).size(), 1u);
}

}  // namespace
}  // namespace mtrun::datasets
