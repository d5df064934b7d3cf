#include "base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun {
namespace {

using testing::MatchesRegex;

TEST(Version, IsThePlainNumberThatMembersCompare) {
  EXPECT_THAT(Version(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

/// A test knows no commit, so that none is linked again for one; the programs' own tests see theirs.
TEST(Version, ALineNamesCommitAndLibraries) {
  EXPECT_EQ(VersionLine("mtrun", "gRPC 1.51.1"), "mtrun " + Version() + " (commit unknown, gRPC 1.51.1)");
  EXPECT_EQ(VersionLine("mtdata"), "mtdata " + Version() + " (commit unknown)");
}

}  // namespace
}  // namespace mtrun
