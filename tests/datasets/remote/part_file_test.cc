#include "datasets/remote/part_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/posix.h"
#include "datasets/cache/cache_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"
#include "tests/support/status.h"
#include "tests/support/sync_log.h"

namespace mtrun::datasets {
namespace {

const std::string kBytes = "the bytes of a shard";
const ShardEntry kEntry{
    .images = 1, .bytes = static_cast<int64_t>(kBytes.size()), .sha256 = Sha256Hex(kBytes)};

class PartFileTest : public testing::Test {
 protected:
  PartFile Open() {
    auto part = PartFile::Open(path_, kEntry);
    EXPECT_TRUE(part.ok()) << part.status();
    return *std::move(part);
  }
  test::TempFolder folder_;
  const std::string path_ = folder_ / "set/train/shard";
};

TEST_F(PartFileTest, ResumesAfterAnEarlierProcess) {
  {
    PartFile part = Open();
    ASSERT_TRUE(part.Append(kBytes.substr(0, 7)).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  PartFile part = Open();
  EXPECT_EQ(part.size(), 7);
  EXPECT_TRUE(part.resumed());
  ASSERT_TRUE(part.Append(kBytes.substr(7)).ok());
  ASSERT_TRUE(part.Finish().ok());
  EXPECT_EQ(test::Read(path_), kBytes);
  EXPECT_TRUE(IsVerified(path_, kEntry));
  EXPECT_EQ(test::Names(folder_ / "set/train").size(), 1u);
}

TEST_F(PartFileTest, UnexpectedBytesAreNotKept) {
  PartFile part = Open();
  ASSERT_TRUE(part.Append(std::string(kBytes.size(), 'x')).ok());
  EXPECT_TRUE(absl::IsDataLoss(part.Finish()));
  EXPECT_EQ(part.size(), 0);
  EXPECT_FALSE(part.resumed());
  ASSERT_TRUE(part.Append(kBytes).ok());
  EXPECT_TRUE(part.Finish().ok());
}

TEST_F(PartFileTest, FileModifiedDuringTheTransferIsNotVerified) {
  PartFile part = Open();
  ASSERT_TRUE(part.Append(kBytes).ok());
  const std::string name = folder_ / ("set/train/" + test::Names(folder_ / "set/train").at(0));
  std::fstream(name).seekp(4).write("damage", 6);
  EXPECT_TRUE(absl::IsAborted(part.Finish())) << "no fault of the server's";
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(part.Append(kBytes).ok());
  ASSERT_TRUE(part.Finish().ok());
  EXPECT_EQ(test::Read(path_), kBytes);
}

TEST_F(PartFileTest, IsOnTheDiskBeforeItHasItsName) {
  PartFile part = Open();
  ASSERT_TRUE(part.Append(kBytes).ok());
  const auto names = test::Names(folder_ / "set/train");
  ASSERT_EQ(names.size(), 1u);
  support::SyncLog log(folder_ / "set");
  ASSERT_TRUE(part.Finish().ok());
  EXPECT_THAT(log.Take(), testing::ElementsAre("train/" + names[0], "train"));
}

/// Another user who may write to the cache knows the name of the part.
TEST_F(PartFileTest, LinkIsNotFollowed) {
  const std::string victim = folder_ / "victim", part = path_ + ".part." + HostName();
  test::Write(victim, "years");
  std::filesystem::create_directories(folder_ / "set/train");
  std::filesystem::create_symlink(victim, part);
  EXPECT_THAT(PartFile::Open(path_, kEntry),
              support::StatusIs(ErrnoStatus(ELOOP, "").code(), testing::HasSubstr("open " + part)));
  EXPECT_EQ(test::Read(victim), "years");
}

TEST_F(PartFileTest, RestartedTransferIsNotAResumedOne) {
  { ASSERT_TRUE(Open().Append("x").ok()); }
  PartFile part = Open();
  ASSERT_TRUE(part.Append(kBytes.substr(1)).ok());
  EXPECT_TRUE(part.resumed());
  EXPECT_TRUE(absl::IsDataLoss(part.Finish())) << "the first byte is another";
  EXPECT_FALSE(part.resumed());
}

TEST_F(PartFileTest, TooManyAndTooFewBytesAreReported) {
  PartFile part = Open();
  ASSERT_TRUE(part.Append("abc").ok());
  EXPECT_TRUE(absl::IsDataLoss(part.Append(kBytes)));
  EXPECT_TRUE(absl::IsDataLoss(part.Finish()));
}

TEST_F(PartFileTest, TooLongPartStartsOver) {
  { ASSERT_TRUE(Open().Append("x").ok()); }
  for (const auto& name : test::Names(folder_ / "set/train"))
    test::Write(folder_ / ("set/train/" + name), kBytes + "more");
  EXPECT_EQ(Open().size(), 0);
}

TEST_F(PartFileTest, VerifiedFileIsKept) {
  PartFile part = Open();
  ASSERT_TRUE(part.Append(kBytes).ok());
  test::Write(path_, kBytes);  // by another machine's fetcher at the same time
  ASSERT_TRUE(MarkVerified(path_, kEntry).ok());
  const auto held = HoldShard(path_, kEntry);
  ASSERT_TRUE(held.ok() && *held);
  ASSERT_TRUE(part.Finish().ok());
  EXPECT_FALSE(EvictShard(path_)) << "it is another file than the one that is held";
  EXPECT_EQ(test::Names(folder_ / "set/train").size(), 1u);
}

TEST_F(PartFileTest, DamagedFileIsReplaced) {
  PartFile part = Open();
  ASSERT_TRUE(part.Append(kBytes).ok());
  test::Write(path_, "damaged");
  ASSERT_TRUE(part.Finish().ok());
  EXPECT_EQ(test::Read(path_), kBytes);
  EXPECT_TRUE(IsVerified(path_, kEntry));
  EXPECT_EQ(test::Names(folder_ / "set/train").size(), 1u);
}

/// CachedSet::SetAside leaves a shard like this if it was damaged while a run read it.
TEST_F(PartFileTest, HeldDamagedFileIsLeftToItsReaders) {
  test::Write(path_, kBytes);
  ASSERT_TRUE(MarkVerified(path_, kEntry).ok());
  const auto held = HoldShard(path_, kEntry), other = HoldShard(path_, kEntry);
  ASSERT_TRUE(held.ok() && *held && other.ok() && *other);
  const std::string part = path_ + ".part." + HostName();
  std::filesystem::rename(path_, part);
  std::fstream(part).seekp(4).write("damage", 6);
  const std::string damaged = test::Read(part);
  PartFile fresh = Open();
  EXPECT_EQ(fresh.size(), 0);
  EXPECT_FALSE(fresh.resumed());
  EXPECT_TRUE(absl::IsUnavailable(PartFile::Open(path_, kEntry).status())) << "it has a writer again";
  ASSERT_TRUE(fresh.Append(kBytes).ok());
  ASSERT_TRUE(fresh.Finish().ok());
  EXPECT_EQ(test::Read(path_), kBytes);
  EXPECT_TRUE(HoldShard(path_, kEntry)->has_value());
  EXPECT_EQ(test::Names(folder_ / "set/train").size(), 1u);
  std::string seen(kBytes.size(), '\0');
  ASSERT_EQ(pread((*held)->get(), seen.data(), seen.size(), 0), static_cast<ssize_t>(seen.size()));
  EXPECT_EQ(seen, damaged) << "a file that is mapped is not cut";
}

TEST_F(PartFileTest, OnlyOneProcessWrites) {
  const PartFile part = Open();
  EXPECT_TRUE(absl::IsUnavailable(PartFile::Open(path_, kEntry).status()));
}

}  // namespace
}  // namespace mtrun::datasets
