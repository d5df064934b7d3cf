#include "datasets/cache/cache_layout.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/file_limit.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace {

bool as_over_nfs = false;

}  // namespace

/// Replaces the system call in this program: NFS implements flock by locks on the whole file, and an
/// exclusive lock needs a descriptor open for writing (flock(2)).
extern "C" int flock(int fd, int operation) noexcept {
  if (as_over_nfs && (operation & LOCK_EX) != 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    errno = EBADF;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, fd, operation));
}

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;

const ShardEntry kEntry{.images = 1, .bytes = 5, .sha256 = std::string(64, '7')};

class CacheLayoutTest : public testing::Test {
 protected:
  CacheLayoutTest() : path_(folder_.File(kDigest + "/train/shard_00000.safetensors")) {
    Put(kDigest + "/train/shard_00000.safetensors");
  }
  void Put(const std::string& name) const {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(name)).parent_path());
    support::WriteText(folder_.File(name), "12345");
  }
  std::optional<UniqueFd> Hold() const {
    absl::StatusOr<std::optional<UniqueFd>> held = HoldShard(path_, kEntry);
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? *std::move(held) : std::nullopt;
  }
  const std::string kDigest = std::string(64, 'd');
  support::TemporaryFolder folder_;
  const std::string path_;
};

TEST_F(CacheLayoutTest, WriteRemovesTheVerifiedMark) {
  EXPECT_FALSE(IsVerified(path_, kEntry));
  ASSERT_TRUE(MarkVerified(path_, kEntry).ok());
  EXPECT_TRUE(IsVerified(path_, kEntry));
  ShardEntry other = kEntry;
  other.sha256[0] = '8';
  EXPECT_FALSE(IsVerified(path_, other));
  std::fstream(path_).write("x", 1);
  EXPECT_FALSE(IsVerified(path_, kEntry));
}

/// The owner of a file can set any time, so size and time prove nothing there.
TEST_F(CacheLayoutTest, ShardThatOthersCanHaveWrittenIsReadBeforeUse) {
  ShardEntry entry = kEntry;
  entry.sha256 = Sha256Hex("12345");
  const auto held = [&] { return HoldShard(path_, entry)->has_value(); };
  const auto poison = [&](const char* text) {
    support::WriteText(path_, text);
    ASSERT_TRUE(MarkVerified(path_, entry).ok());
  };
  namespace fs = std::filesystem;
  const auto set = [](const fs::path& path, fs::perms mode) { fs::permissions(path, mode); };
  const fs::perms closed = fs::perms::owner_all,
                  open = closed | fs::perms::group_all | fs::perms::others_exec;
  const fs::perms readable = closed | fs::perms::group_read | fs::perms::group_exec;
  const fs::path split = fs::path(path_).parent_path(), digest = split.parent_path();
  for (const fs::path& writable : {fs::path(path_), split, digest, digest.parent_path()}) {
    for (const fs::path& each : {fs::path(path_), split, digest, digest.parent_path()}) set(each, readable);
    poison("54321");
    EXPECT_TRUE(held()) << "ours alone: the time proves it";
    set(writable, open);
    EXPECT_FALSE(IsVerified(path_, entry));
    EXPECT_FALSE(held()) << writable;
    EXPECT_FALSE(std::filesystem::exists(path_)) << "it is fetched again";
    poison("12345");
    set(writable, open);
    EXPECT_TRUE(held()) << "the right bytes";
    EXPECT_TRUE(IsVerified(path_, entry));
  }
  set(digest.parent_path(), closed);
  set(split, open);
  EXPECT_TRUE(IsVerified(path_, entry)) << "other users cannot enter the cache";
}

TEST_F(CacheLayoutTest, LinkIsNoShard) {
  const std::string elsewhere = folder_.File("elsewhere");
  std::filesystem::rename(path_, elsewhere);
  ASSERT_TRUE(MarkVerified(elsewhere, kEntry).ok());
  std::filesystem::create_symlink(elsewhere, path_);
  EXPECT_FALSE(HoldShard(path_, kEntry).ok());
}

TEST_F(CacheLayoutTest, NewCacheIsForThisUserAlone) {
  const std::string cache = folder_.File("a/b/cache");
  ASSERT_TRUE(MakeCache(cache).ok());
  EXPECT_EQ(std::filesystem::status(cache).permissions(), std::filesystem::perms::owner_all);
  std::filesystem::permissions(cache, std::filesystem::perms::all);
  ASSERT_TRUE(MakeCache(cache).ok());
  EXPECT_EQ(std::filesystem::status(cache).permissions(), std::filesystem::perms::all) << "the user's choice";
}

TEST_F(CacheLayoutTest, CacheCanBeNamedWithinTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  EXPECT_TRUE(MakeCache("cache").ok());
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_directory(folder_.File("cache")));
}

TEST_F(CacheLayoutTest, HeldShardIsNotEvicted) {
  EXPECT_FALSE(Hold());  // not verified
  ASSERT_TRUE(MarkVerified(path_, kEntry).ok());
  {
    const auto one = Hold(), two = Hold();
    EXPECT_TRUE(one && two);
    EXPECT_TRUE(IsVerified(path_, kEntry));  // use does not change the mark
    EXPECT_FALSE(EvictShard(path_));
  }
  EXPECT_TRUE(EvictShard(path_));
  EXPECT_TRUE(EvictShard(path_));  // already removed
  EXPECT_FALSE(Hold());
}

TEST_F(CacheLayoutTest, ErrorTellsWhyAShardCannotBeHeld) {
  ASSERT_TRUE(MarkVerified(path_, kEntry).ok());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::StatusOr<std::optional<UniqueFd>> held = HoldShard(path_, kEntry);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(std::string(held.status().message()),
              testing::AllOf(testing::HasSubstr(path_), testing::HasSubstr("Too many open files")));
  EXPECT_TRUE(Hold());
}

TEST_F(CacheLayoutTest, HeldShardsAreBoundedByTheFileLimit) {
  const size_t may = FileLimit();
  EXPECT_TRUE(CheckFileLimit("https://host/set", may - 16, 16).ok());
  const absl::Status refused = CheckFileLimit("https://host/set", may - 15, 16);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("raise the hard limit (ulimit -Hn)"));
}

TEST_F(CacheLayoutTest, ShardOnNfsIsEvicted) {
  ASSERT_TRUE(MarkVerified(path_, kEntry).ok());
  as_over_nfs = true;
  auto held = Hold();
  EXPECT_TRUE(held);
  EXPECT_FALSE(EvictShard(path_));
  held.reset();
  EXPECT_TRUE(EvictShard(path_));
  as_over_nfs = false;
}

TEST_F(CacheLayoutTest, OnlyFilesOfSetsCount) {
  for (const std::string& name : {kDigest + "/index.json", std::string("fetcher.log")})
    support::WriteText(folder_.File(name), "x");
  ASSERT_EQ(CachedFiles(folder_.path()).size(), 1u);
  EXPECT_EQ(CachedFiles(folder_.path())[0].path, path_);
  EXPECT_EQ(CachedFiles(folder_.path())[0].bytes, 5);
}

TEST_F(CacheLayoutTest, OnlyShardsOfSetsBelongToTheCache) {
  const std::vector<std::string> own = {"/train/shard_00000.safetensors.part.host-1",
                                        "/a_b2/shard_100000.safetensors"};
  for (const std::string& name : own) Put(kDigest + name);
  for (const std::string name : {"photos/2019/a.jpg", "notes/x/y.txt", "photos/train/shard_00000.safetensors",
                                 "old/set/train/shard_00000.safetensors", "shard_00000.safetensors",
                                 "sources/0/shard_00000.safetensors"})
    Put(name);
  for (const char* name :
       {"/train/notes.txt", "/train/shard_00000.safetensors.bak", "/train/shard_1.safetensors",
        "/train/shard_0000x.safetensors", "/Train/shard_00000.safetensors",
        "/train/more/shard_00000.safetensors", "/shard_00000.safetensors"})
    Put(kDigest + name);
  Put(std::string(64, 'x') + "/train/shard_00000.safetensors");
  std::vector<std::string> found;
  for (const CachedFile& file : CachedFiles(folder_.path())) found.push_back(file.path);
  EXPECT_THAT(found, testing::UnorderedElementsAre(path_, folder_.File(kDigest + own[0]),
                                                   folder_.File(kDigest + own[1])));
}

/// Tests a process that may not read all folders because some belong to another user.
TEST_F(CacheLayoutTest, UnreadableFolderHidesNoOther) {
  std::vector<std::string> folders;
  for (const char digit : {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}) {
    Put(std::string(64, digit) + "/train/shard_00000.safetensors");
    const bool hidden = (digit - '0') % 3 == 0;
    std::filesystem::permissions(folder_.File(std::string(64, digit)),
                                 std::filesystem::perms(hidden ? 0 : 0755));
  }
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(100);
    _exit(static_cast<int>(CachedFiles(folder_.path()).size()));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  for (const char digit : {'0', '3', '6', '9'})
    std::filesystem::permissions(folder_.File(std::string(64, digit)), std::filesystem::perms(0755));
  EXPECT_EQ(WEXITSTATUS(status), 7) << "six of these, and the first one";
}

TEST(CacheOrder, PartialFileIsMappedToItsWholeFile) {
  EXPECT_EQ(WholeOf("/a.part.b/train/shard_00000.safetensors"), "/a.part.b/train/shard_00000.safetensors");
  EXPECT_EQ(WholeOf("/a.part.b/train/shard_00000.safetensors.part.host-1"),
            "/a.part.b/train/shard_00000.safetensors");
  EXPECT_EQ(WholeOf("shard_00000.safetensors.part.host"), "shard_00000.safetensors");
}

TEST(CacheOrder, LeastRecentlyUsedComesFirst) {
  const std::vector<CachedFile> files = InOrderOfUse({{"b", 1, 20}, {"c", 1, 10}, {"a", 1, 20}});
  EXPECT_THAT(files, ElementsAre(CachedFile{"c", 1, 10}, CachedFile{"a", 1, 20}, CachedFile{"b", 1, 20}));
}

TEST(CacheOrder, TrainComesBeforeTheOtherSplits) {
  Index index;
  index.splits["a"] = {.class_counts = {}, .shards = {kEntry}};
  index.splits["train"] = {.class_counts = {}, .shards = {kEntry, kEntry}};
  const auto shards = ShardsOf(index);
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards[0].first, "train/shard_00000.safetensors");
  EXPECT_EQ(shards[2].first, "a/shard_00000.safetensors");
}

}  // namespace
}  // namespace mtrun::datasets
