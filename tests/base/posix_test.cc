#include "base/posix.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/file_size_limit.h"
#include "tests/support/status.h"
#include "tests/support/sync_log.h"

namespace mtrun {
namespace {

class PosixTest : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder("mtrun-posix-"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(PosixTest, ErrnoBecomesAStatusCode) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "open x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "write x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(ECONNREFUSED, "connect x").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrnoStatus(ENOENT, "open x").message(), "open x: No such file or directory");
}

TEST_F(PosixTest, UniqueFdClosesOnce) {
  const int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd first(raw);
    UniqueFd second = std::move(first);
    EXPECT_FALSE(first.valid());
    EXPECT_EQ(second.get(), raw);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

TEST_F(PosixTest, StartOfAFileIsAtMostTheRequestedLength) {
  const std::string path = folder_ + "/text";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(100'000, 'x') + "end").ok());
  EXPECT_EQ(*ReadFileStart(path, 0), "");
  EXPECT_EQ(*ReadFileStart(path, 3), "xxx");
  EXPECT_EQ(ReadFileStart(path, 100'001)->back(), 'e');
  EXPECT_EQ(ReadFileStart(path, 1 << 30)->size(), 100'003u);
  EXPECT_TRUE(absl::IsNotFound(ReadFileStart(folder_ + "/none", 3).status()));
}

TEST_F(PosixTest, OnlyRegularFilesHaveAStart) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder_, std::string("/dev/zero")}) {
    const auto read = ReadFileStart(path, 3);
    EXPECT_EQ(read.status().message(), path + " is not an ordinary file");
  }
}

TEST_F(PosixTest, OpenFileIsAtItsPathUntilReplacedOrRemoved) {
  const std::string path = folder_ + "/file", link = folder_ + "/link";
  ASSERT_TRUE(WriteFileAtomically(path, "x").ok());
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(IsFileAt(path, fd.get()));
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_TRUE(IsFileAt(link, fd.get()));
  ASSERT_EQ(rename(path.c_str(), (folder_ + "/moved").c_str()), 0);
  EXPECT_FALSE(IsFileAt(path, fd.get()));
  EXPECT_TRUE(IsFileAt(folder_ + "/moved", fd.get()));
  ASSERT_TRUE(WriteFileAtomically(path, "x").ok());
  EXPECT_FALSE(IsFileAt(path, fd.get()));
  EXPECT_FALSE(IsFileAt(path, -1));
}

TEST_F(PosixTest, AtomicWriteReplacesAndLeavesNoOtherFile) {
  const std::string path = folder_ + "/settings.yaml";
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "new text").ok());
  EXPECT_EQ(*ReadFile(path), "new text");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1);
}

/// Another user may put links where the names can be guessed.
TEST_F(PosixTest, AtomicWriteFollowsNoLink) {
  const std::string path = folder_ + "/settings.yaml", victim = folder_ + "/victim";
  ASSERT_TRUE(WriteFileAtomically(victim, "years").ok());
  for (int count = 0; count < 3000; ++count) {  // more than the writes of this test program
    const std::string beside = path + "." + std::to_string(getpid()) + "-" + std::to_string(count) + ".new";
    ASSERT_EQ(symlink(victim.c_str(), beside.c_str()), 0);
  }
  ASSERT_TRUE(WriteFileAtomically(path, "text").ok());
  EXPECT_EQ(*ReadFile(path), "text");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
  EXPECT_EQ(*ReadFile(victim), "years");
}

TEST_F(PosixTest, LockOfAFolderFollowsNoLink) {
  const std::string victim = folder_ + "/victim", lock = folder_ + "/" + kFolderLockFile;
  ASSERT_EQ(symlink(victim.c_str(), lock.c_str()), 0);
  for (const auto& locked : {LockFolder(folder_).status(), TryLockFolder(folder_).status()})
    EXPECT_THAT(locked, support::StatusIs(ErrnoStatus(ELOOP, "").code(), testing::HasSubstr("open " + lock)));
  EXPECT_FALSE(std::filesystem::exists(victim));
}

TEST_F(PosixTest, ThreadsCanWriteTheSamePath) {
  const std::string path = folder_ + "/one";
  const auto write = [&path](char what, size_t size) {
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(WriteFileAtomically(path, std::string(size, what)).ok());
  };
  std::thread other([&] { write('a', 7000); });
  write('b', 100);
  other.join();
  const std::string text = *ReadFile(path);
  EXPECT_TRUE(text == std::string(7000, 'a') || text == std::string(100, 'b')) << text.size();
}

TEST_F(PosixTest, FailedAtomicWriteKeepsTheOldFileAndNamesThePath) {
  const std::string path = folder_ + "/taken";
  ASSERT_TRUE(MakeFolders(path + "/inside").ok());  // a file cannot replace a folder that is not empty
  const absl::Status status = WriteFileAtomically(path, "text");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find(path), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_directory(path + "/inside"));
}

TEST_F(PosixTest, ReadFileNamesAMissingPath) {
  const absl::Status status = ReadFile(folder_ + "/none").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("/none"), std::string::npos);
}

TEST_F(PosixTest, CheckWritableMakesTheFolderAndLeavesItEmpty) {
  const std::string path = folder_ + "/a/b";
  ASSERT_TRUE(CheckWritable(path).ok());
  EXPECT_TRUE(std::filesystem::is_empty(path));
}

TEST_F(PosixTest, CheckWritableRefusesAFile) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "x").ok());
  EXPECT_FALSE(CheckWritable(folder_ + "/file").ok());
  EXPECT_FALSE(CheckWritable(folder_ + "/file/below").ok());
}

TEST_F(PosixTest, CheckWritableReportsAFullDisk) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(WriteAll(full.get(), "x").code(), absl::StatusCode::kResourceExhausted);
}

/// Without SurviveSizeLimit the write would end this process by SIGXFSZ.
TEST_F(PosixTest, WriteBeyondTheSizeLimitMaySucceedLater) {
  const UniqueFd file(open((folder_ + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::string text(5000, 'x');
  {
    const support::FileSizeLimit limit(4096);
    const absl::Status status = WriteFront(file.get(), text);
    EXPECT_TRUE(MayTakeBytesLater(status) && IsAtSizeLimit(status)) << status;
    EXPECT_NE(std::string(status.message()).find("(ulimit -f allows 4096 bytes in a file)"),
              std::string::npos);
    EXPECT_EQ(text.size(), 5000u - 4096u);
  }
  EXPECT_TRUE(WriteFront(file.get(), text).ok());
  EXPECT_FALSE(IsAtSizeLimit(ErrnoStatus(ENOSPC, "write")));
}

TEST_F(PosixTest, SyncNamesWhatItCannotOpen) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "x").ok());
  EXPECT_TRUE(SyncFile(folder_ + "/file").ok());
  EXPECT_TRUE(SyncFolder(folder_).ok());
  const absl::Status missing = SyncFile(folder_ + "/none");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(missing.message()).find("/none"), std::string::npos);
  EXPECT_FALSE(SyncFolder(folder_ + "/file").ok()) << "a file is no folder";
}

TEST_F(PosixTest, FileIsOnTheDiskBeforeItHasItsName) {
  support::SyncLog log(folder_);
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/file", "x").ok());
  EXPECT_THAT(log.Take(), testing::ElementsAre(testing::MatchesRegex("file\\..*\\.new"), "."));
  ASSERT_TRUE(SyncFile(folder_ + "/file").ok());
  ASSERT_TRUE(SyncFolder(folder_).ok());
  EXPECT_THAT(log.Take(), testing::ElementsAre("file", "."));
}

TEST_F(PosixTest, OneHolderLocksAFolderAtATime) {
  std::atomic<bool> second = false;
  auto held = LockFolder(folder_);
  ASSERT_TRUE(held.ok()) << held.status();
  std::thread other([&] {
    const auto mine = LockFolder(folder_);
    EXPECT_TRUE(mine.ok());
    second = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // too early only if the lock fails
  EXPECT_FALSE(second);
  *held = UniqueFd();
  other.join();
  EXPECT_TRUE(second);
  EXPECT_EQ(LockFolder(folder_ + "/none").status().code(), absl::StatusCode::kNotFound);
}

/// NFS keeps a lock on a folder local to the machine; a lock on a file is visible to all machines.
TEST_F(PosixTest, FolderIsLockedByAFileInIt) {
  auto held = LockFolder(folder_);
  ASSERT_TRUE(held.ok()) << held.status();
  const UniqueFd file(open((folder_ + "/.lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  EXPECT_NE(flock(file.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(TryLockFolder(folder_).status().code(), absl::StatusCode::kUnavailable);
  held->Reset();
  EXPECT_TRUE(TryLockFolder(folder_).ok());
}

TEST_F(PosixTest, TemporaryFoldersArePrivateAndDistinct) {
  const std::string other = *MakeTemporaryFolder("mtrun-posix-");
  EXPECT_NE(other, folder_);
  struct stat info {};
  ASSERT_EQ(stat(other.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  std::filesystem::remove_all(other);
}

TEST_F(PosixTest, FactsAboutThisMachine) {
  EXPECT_GT(*FreeDiskBytes(folder_), 0);
  EXPECT_FALSE(HostName().empty());
  EXPECT_TRUE(std::filesystem::exists(*ExecutableFolder() + "/base_test"));
  EXPECT_NE(RandomBits(), RandomBits());
}

}  // namespace
}  // namespace mtrun
