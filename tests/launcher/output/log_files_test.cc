#include "launcher/output/log_files.h"

#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>

#include "absl/strings/str_format.h"
#include "base/posix.h"
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

TEST(LogFilesTest, WithoutAFolderTheNewestRunsOfTheUserAreKept) {
  const support::TemporaryFolder state;
  support::WriteText(state.File("job.membership"), "another's");
  std::filesystem::create_directory(state.File("mine-20200101"));
  const auto old = [&](int i) {
    return state.File(absl::StrFormat("job-20260101-0000%02d-0000000%x", i, i % 16));
  };
  for (int i = 0; i < 30; ++i) std::filesystem::create_directories(old(i) + "/attempt_0/0");
  // A file's lock: NFS keeps that of a folder on the machine that took it.
  const UniqueFd goes_on(open((old(3) + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(goes_on.get(), LOCK_EX), 0);
  const auto files = LogFiles::Make("", "job", state.path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->folder(), testing::MatchesRegex(state.path() + "/job-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}"));
  EXPECT_EQ(std::filesystem::status(files->folder()).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(std::filesystem::exists(old(0))) << "no start waits for that";
  files->RemoveOldRuns();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(std::filesystem::exists(old(i)), i == 3 || i > 10) << i;
  EXPECT_TRUE(std::filesystem::exists(state.File("job.membership")));
  EXPECT_TRUE(std::filesystem::exists(state.File("mine-20200101")));
}

TEST(LogFilesTest, WhereTheStateFolderCannotBeWrittenThereIsATemporaryOne) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("file"), "");
  const auto files = LogFiles::Make("", "job", folder.File("file"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->folder(), testing::HasSubstr("/mtrun_"));
  std::filesystem::remove_all(std::filesystem::path(files->folder()).parent_path());
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
