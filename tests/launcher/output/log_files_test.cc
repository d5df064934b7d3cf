#include "launcher/output/log_files.h"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"

namespace mtrun::launcher {
namespace {

using testing::StartsWith;

TEST(LogFilesTest, LayoutMatchesTorchrun) {
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

/// Makes log folders of other nodes and runs.
class OldRunsTest : public testing::Test {
 protected:
  /// Makes the folder of a node whose run began at `date`; `wrote`: time since its last write to the log.
  std::string Folder(const std::string& run_id, const std::string& date,
                     std::chrono::hours wrote = std::chrono::hours(1000)) {
    const std::string folder = state_.File(absl::StrFormat("%s-%s-%08x", run_id, date, ++count_));
    std::filesystem::create_directories(folder + "/attempt_0/0");
    const std::filesystem::path log = folder + "/attempt_0/0/stderr.log";
    support::WriteText(log, "text");
    std::filesystem::last_write_time(log, std::filesystem::file_time_type::clock::now() - wrote);
    return folder;
  }
  /// Makes as many runs as are kept, all newer than any real run.
  void NewerRuns() {
    for (size_t i = 0; i < LogFiles::kMaxRuns; ++i) Folder(absl::StrCat("newer", i), "29991231-000000");
  }
  void RemoveOldRuns(const std::stop_token& stop = {}) {
    const auto files = LogFiles::Make("", "mine", state_.path());
    ASSERT_TRUE(files.ok()) << files.status();
    files->RemoveOldRuns(stop);
  }
  static bool Exists(const std::string& path) { return std::filesystem::exists(path); }

  const support::TemporaryFolder state_;
  unsigned count_ = 0;
};

TEST_F(OldRunsTest, NewestRunsOfTheUserAreKept) {
  support::WriteText(state_.File("job.membership"), "another's");
  std::filesystem::create_directory(state_.File("mine-20200101"));
  std::vector<std::string> old;
  for (int i = 0; i < 30; ++i) old.push_back(Folder("job", absl::StrFormat("202001%02d-000000", 1 + i)));
  // A file's lock: NFS keeps a folder's lock on the machine that took it.
  const UniqueFd goes_on(open((old[3] + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(goes_on.get(), LOCK_EX), 0);
  const auto files = LogFiles::Make("", "job", state_.path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->folder(), testing::MatchesRegex(state_.path() + "/job-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}"));
  EXPECT_EQ(std::filesystem::status(files->folder()).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(Exists(old[0])) << "no start waits for that";
  files->RemoveOldRuns();
  for (size_t i = 0; i < old.size(); ++i) EXPECT_EQ(Exists(old[i]), i == 3 || i > 10) << i;
  EXPECT_TRUE(Exists(state_.File("job.membership")));
  EXPECT_TRUE(Exists(state_.File("mine-20200101")));
}

TEST_F(OldRunsTest, AllNodesOfARunCountAsOneRun) {
  std::vector<std::string> nodes;
  for (int i = 0; i < 50; ++i) nodes.push_back(Folder("job", absl::StrFormat("20200102-0000%02d", i)));
  const std::string before = Folder("job", "20200101-120000");
  for (size_t i = 0; i < LogFiles::kMaxRuns - 2; ++i) Folder(absl::StrCat("newer", i), "20200201-000000");
  RemoveOldRuns();
  for (const std::string& node : nodes) EXPECT_TRUE(Exists(node)) << node;
  EXPECT_FALSE(Exists(before)) << "another one of that id";
}

TEST_F(OldRunsTest, AllNodesOfTheOldestKeptRunAreKept) {
  for (size_t i = 0; i < LogFiles::kMaxRuns - 2; ++i) Folder(absl::StrCat("newer", i), "20200201-000000");
  const std::string first = Folder("last", "20200102-000000"), other = Folder("other", "20200102-000002"),
                    second = Folder("last", "20200102-000005");
  RemoveOldRuns();
  EXPECT_TRUE(Exists(second));
  EXPECT_FALSE(Exists(other)) << "one run more than are kept";
  EXPECT_TRUE(Exists(first)) << "a node of the same run as the second one";
}

TEST_F(OldRunsTest, TargetOfALinkIsNotRemoved) {
  const support::TemporaryFolder elsewhere;
  const std::string kept = Folder("kept", "20200101-000000"), moved = elsewhere.File("kept");
  std::filesystem::rename(kept, moved);
  std::filesystem::create_directory_symlink(moved, kept);
  NewerRuns();
  RemoveOldRuns();
  EXPECT_TRUE(Exists(moved + "/attempt_0/0/stderr.log"));
  EXPECT_TRUE(std::filesystem::is_symlink(kept));
}

/// For file systems whose locks are local to a machine, and before a node has taken its lock.
TEST_F(OldRunsTest, NewRunIsKeptWithoutALock) {
  std::string fresh;
  {
    const auto files = LogFiles::Make("", "job", state_.path());
    ASSERT_TRUE(files.ok()) << files.status();
    fresh = files->folder();
  }
  NewerRuns();
  RemoveOldRuns();
  EXPECT_TRUE(Exists(fresh));
}

TEST_F(OldRunsTest, RecentlyWrittenRunIsKeptWithoutALock) {
  const std::string writes = Folder("long", "20200101-000000", std::chrono::hours(1)),
                    silent = Folder("silent", "20200101-000000", std::chrono::hours(100));
  support::WriteText(silent + "/.lock", "");  // checking the lock creates it
  NewerRuns();
  RemoveOldRuns();
  EXPECT_TRUE(Exists(writes));
  EXPECT_FALSE(Exists(silent));
}

TEST_F(OldRunsTest, RemovalStopsOnRequest) {
  const std::string old = Folder("old", "20200101-000000");
  NewerRuns();
  std::stop_source over;
  over.request_stop();
  RemoveOldRuns(over.get_token());
  EXPECT_TRUE(Exists(old + "/attempt_0/0/stderr.log"));
  RemoveOldRuns();
  EXPECT_FALSE(Exists(old));
}

TEST(LogFilesTest, UnwritableStateFolderIsReplacedByATemporaryOne) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("file"), "");
  const auto files = LogFiles::Make("", "job", folder.File("file"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->folder(), testing::HasSubstr("/mtrun_"));
  std::filesystem::remove_all(std::filesystem::path(files->folder()).parent_path());
}

TEST(LogFilesTest, MembershipRestartHasItsOwnFolder) {
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

TEST(LogFilesTest, NextWorkerDeletesNothing) {
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

TEST(LogFilesTest, DevNullMeansNoFiles) {
  auto files = LogFiles::Make("/dev/null", "job");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->folder(), "");
  const auto names = files->ForWorker(0, 1, 0);
  ASSERT_TRUE(names.ok()) << names.status();
  for (const std::string& name :
       {names->out, names->err, names->error, names->filtered_out, names->filtered_err})
    EXPECT_EQ(name, "");
}

TEST(LogFilesTest, ExistingFileIsAnError) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("log"), "a file");
  auto files = LogFiles::Make(folder.File("log"), "job");
  ASSERT_FALSE(files.ok());
  EXPECT_THAT(std::string(files.status().message()), testing::HasSubstr("--log_dir"));
}

/// Regression: a node that restarted while the log disk was full exited with status 2.
TEST(LogFilesTest, FullDiskDoesNotPreventAStart) {
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
