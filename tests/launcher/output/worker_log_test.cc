#include "launcher/output/worker_log.h"

#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"

namespace mtrun::launcher {
namespace {

TEST(WorkerLogTest, RemovedBoundedFileIsRecreated) {
  const support::TemporaryFolder folder;
  auto log = WorkerLog::Open(folder.File("out.log"), 40'000);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_TRUE(log->Write("begin\n").ok());
  std::filesystem::remove(folder.File("out.log"));
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(log->Write(std::string(1000, 'x')).ok()) << i;
  EXPECT_TRUE(log->Write("the end\n").ok());
  EXPECT_THAT(support::ReadText(folder.File("out.log")), testing::EndsWith("the end\n"));
}

/// A bounded log rotates earlier, so that it holds the newest lines; one that was requested ends at the
/// limit.
TEST(WorkerLogTest, SizeLimitOfFilesLosesNoNewLines) {
  const support::TemporaryFolder folder;
  const support::FileSizeLimit limit(4096);
  auto log = WorkerLog::Open(folder.File("out.log"), 1 << 20);
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(log->Write(std::string(1000, 'x')).ok()) << i;
  EXPECT_TRUE(log->Write("the end\n").ok());
  EXPECT_THAT(support::ReadText(folder.File("out.log")), testing::EndsWith("the end\n"));
  auto whole = WorkerLog::Open(folder.File("whole.log"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(whole->Write(std::string(1000, 'x')).ok());
  EXPECT_TRUE(IsAtSizeLimit(whole->Write(std::string(1000, 'x'))));
}

/// Regression: failed writes were counted, so the file was rotated twice and its content was lost.
TEST(WorkerLogTest, FullDiskLosesNoKeptOutput) {
  const support::TemporaryFolder folder;
  const auto disk = support::SmallDisk::Make(folder.File("disk"), 64 << 10);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  const std::string newest = folder.File("disk/out.log"), older = folder.File("disk/out.1.log");
  auto log = WorkerLog::Open(newest, 40'000);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_TRUE(log->Write("old\n").ok());
  (*disk)->Fill();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(log->Write(std::string(10'000, 'x')).ok()) << i;
  (*disk)->Free();
  EXPECT_TRUE(log->Write("new\n").ok());
  const std::string kept = support::ReadText(newest) + support::ReadText(older);
  EXPECT_THAT(kept, testing::HasSubstr("old\n"));
  EXPECT_THAT(kept, testing::HasSubstr("new\n"));
}

}  // namespace
}  // namespace mtrun::launcher
