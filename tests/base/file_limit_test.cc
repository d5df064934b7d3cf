#include "base/file_limit.h"

#include <dirent.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace mtrun {
namespace {

/// Returns the size of this process's table of open files.
size_t Room() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t room = 0;
    if (word == "FDSize:" && status >> room) return room;
  }
  return 0;
}

int OpenFiles() {
  int count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (folder != nullptr && readdir(folder) != nullptr) ++count;
  if (folder != nullptr) closedir(folder);
  return count;
}

TEST(FileLimitTest, LimitIsRaisedUpToTheHardLimitAndNothingLeaks) {
  const rlimit before = InheritedFileLimit();
  const size_t room = Room();
  ASSERT_GT(room, 0u);
  const rlimit low = {8 * room, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const int open = OpenFiles();
  ASSERT_GT(open, 0);
  MakeRoomForFiles(4 * room);
  EXPECT_GE(Room(), 4 * room);
  EXPECT_LT(Room(), 8 * room);
  MakeRoomForFiles(1'000'000'000);
  EXPECT_GE(Room(), 8 * room);
  EXPECT_LT(Room(), 16 * room);
  EXPECT_EQ(OpenFiles(), open);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace mtrun
