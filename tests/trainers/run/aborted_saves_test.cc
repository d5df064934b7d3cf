#include "trainers/run/files/aborted_saves.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/program.h"
#include "trainers/checkpoints/manifest.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using checkpoints::PartialFolder;

/// Returns the saver name of a process that has exited.
std::string NameOfAnEndedSaver() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string name = SaverName(3);
    _exit(write(ends[1], name.data(), name.size()) == static_cast<ssize_t>(name.size()) ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  char name[256];
  const ssize_t size = read(ends[0], name, sizeof(name));
  close(ends[0]);
  close(ends[1]);
  return std::string(name, static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

TEST(AbortedSaves, EndOfASaverIsKnownOnItsOwnMachine) {
  EXPECT_FALSE(IsSaverGone(PartialFolder(20, SaverName(3))));
  EXPECT_TRUE(IsSaverGone(PartialFolder(20, NameOfAnEndedSaver())));
  for (const char* other : {"3.1f.77", "3.77", "removed", "", "3..", "3.1f.-1", "3.1f.99999999999999"})
    EXPECT_FALSE(IsSaverGone(PartialFolder(20, other))) << other;
}

TEST(AbortedSaves, FolderWithoutAnActiveSaverIsAborted) {
  EXPECT_TRUE(IsAborted(/*gone=*/true, Duration::zero()));
  EXPECT_FALSE(IsAborted(/*gone=*/false, Duration::zero()));
  EXPECT_FALSE(IsAborted(/*gone=*/false, kSaverIsIdle - Duration(1)));
  EXPECT_TRUE(IsAborted(/*gone=*/false, kSaverIsIdle));
}

TEST(AbortedSaves, AreRemovedFromTheFolder) {
  const support::TemporaryFolder folder;
  const std::string ended = PartialFolder(20, NameOfAnEndedSaver()), runs = PartialFolder(20, SaverName(3)),
                    old = PartialFolder(10, "1.1f.77"), elsewhere = PartialFolder(30, "4.1f.77");
  for (const std::string& name : {ended, runs, old, elsewhere}) {
    fs::create_directories(folder.File(name));
    support::WriteText(folder.File(name) + "/model.safetensors", "half");
  }
  const auto long_ago = fs::file_time_type::clock::now() - 2 * kSaverIsIdle;
  fs::last_write_time(folder.File(old) + "/model.safetensors", long_ago);
  fs::last_write_time(folder.File(old), long_ago);
  RemoveAbortedSaves(folder.path());
  EXPECT_FALSE(fs::exists(folder.File(ended)));
  EXPECT_FALSE(fs::exists(folder.File(old)));
  EXPECT_TRUE(fs::exists(folder.File(runs))) << "its writer has lost its place and works on it still";
  EXPECT_TRUE(fs::exists(folder.File(elsewhere)));
}

}  // namespace
}  // namespace mtrun::trainers
