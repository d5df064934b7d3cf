#include "launcher/output/worker_log.h"

#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"

namespace mtrun::launcher {
namespace {

TEST(WorkerLogTest, ABoundedFileThatSomebodyRemovesIsMadeAgain) {
  const support::TemporaryFolder folder;
  auto log = WorkerLog::Open(folder.File("out.log"), 40'000);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_TRUE(log->Write("begin\n").ok());
  std::filesystem::remove(folder.File("out.log"));
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(log->Write(std::string(1000, 'x')).ok()) << i;
  EXPECT_TRUE(log->Write("the end\n").ok());
  EXPECT_THAT(support::ReadText(folder.File("out.log")), testing::EndsWith("the end\n"));
}

/// What could not be written counted, so that the file was put aside twice, and what it held was gone.
TEST(WorkerLogTest, AFullDiskCostsNothingThatIsKept) {
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
