#include "launcher/output/log_files.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"

namespace mtrun::launcher {
namespace {

using testing::StartsWith;

TEST(LogFilesTest, LiesWhereTorchrunPutsThem) {
  const support::TemporaryFolder folder;
  auto files = LogFiles::Make(folder.path() + "/a/b", "job 1/x");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->folder(), StartsWith(folder.path() + "/a/b/job_1_x_"));
  const auto worker = files->ForWorker(2, 7, 5);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(worker->out, files->folder() + "/attempt_2/5/stdout.log");
  EXPECT_EQ(worker->err, files->folder() + "/attempt_2/5/stderr.log");
  EXPECT_EQ(worker->error, files->folder() + "/attempt_2/5/error.json");
}

TEST(LogFilesTest, AMembershipRestartHasAFolderOfItsOwn) {
  const support::TemporaryFolder folder;
  auto files = LogFiles::Make(folder.path(), "job");
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string run = files->folder();
  EXPECT_EQ(files->ForWorker(0, 3, 1)->out, run + "/attempt_0/1/stdout.log");
  EXPECT_EQ(files->ForWorker(0, 3, 2)->out, run + "/attempt_0/2/stdout.log");
  EXPECT_EQ(files->ForWorker(0, 4, 1)->out, run + "/attempt_0.g4/1/stdout.log");
  EXPECT_EQ(files->ForWorker(1, 5, 1)->out, run + "/attempt_1/1/stdout.log");
  EXPECT_EQ(files->ForWorker(1, 7, 1)->filtered_err, run + "/attempt_1.g7/filtered_stderr.log");
}

TEST(LogFilesTest, NothingIsDeletedForTheNextWorker) {
  const support::TemporaryFolder folder;
  auto files = LogFiles::Make(folder.path(), "job");
  const auto first = files->ForWorker(0, 1, 0);
  support::WriteText(first->error, "old");
  support::WriteText(first->out, "old");
  ASSERT_TRUE(files->ForWorker(0, 1, 0).ok());
  EXPECT_FALSE(std::filesystem::exists(first->error));
  EXPECT_EQ(support::ReadText(std::filesystem::path(first->error).parent_path() / "error.1.json"), "old");
  EXPECT_TRUE(std::filesystem::exists(first->out));
}

TEST(LogFilesTest, NoFilesForDevNull) {
  auto files = LogFiles::Make("/dev/null", "job");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->folder(), "");
  EXPECT_EQ(files->ForWorker(0, 1, 0)->out, "");
}

TEST(LogFilesTest, AFileInTheWayIsAnError) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("log"), "a file");
  auto files = LogFiles::Make(folder.File("log"), "job");
  ASSERT_FALSE(files.ok());
  EXPECT_THAT(std::string(files.status().message()), testing::HasSubstr("--log_dir"));
}

/// A node that starts again while the disk of the logs is full was sent away with status 2.
TEST(LogFilesTest, AFullDiskKeepsNobodyFromStarting) {
  const support::TemporaryFolder folder;
  const auto disk = support::SmallDisk::Make(folder.File("disk"), 64 << 10);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  (*disk)->Fill();
  auto files = LogFiles::Make(folder.File("disk"), "job");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_TRUE(files->ForWorker(0, 1, 0).ok());
}

}  // namespace
}  // namespace mtrun::launcher
