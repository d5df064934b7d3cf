#include "trainers/run/files/disk_space_wait.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

TEST(DiskSpaceWait, RetriesUntilSomethingIsMoreUrgent) {
  int alive = 0;
  bool urgent = false;
  DiskSpaceWait wait([&] { return urgent; }, [&] { ++alive; });
  EXPECT_TRUE(wait(absl::ResourceExhaustedError("full")));
  EXPECT_TRUE(wait(absl::ResourceExhaustedError("full")));
  EXPECT_EQ(alive, 2);
  urgent = true;
  EXPECT_FALSE(wait(absl::ResourceExhaustedError("full")));
  EXPECT_EQ(alive, 2);
}

TEST(DiskSpaceWait, RetriesFullAndReadOnlyDisksOnly) {
  EXPECT_TRUE(MayTakeBytesLater(ErrnoStatus(ENOSPC, "write")));
  EXPECT_TRUE(MayTakeBytesLater(Annotate(ErrnoStatus(EROFS, "write"), "ledger.jsonl")));
  EXPECT_TRUE(absl::IsPermissionDenied(ErrnoStatus(EROFS, "write")));
  EXPECT_FALSE(MayTakeBytesLater(ErrnoStatus(EACCES, "write")));
  EXPECT_FALSE(MayTakeBytesLater(absl::OkStatus()));
}

}  // namespace
}  // namespace mtrun::trainers
