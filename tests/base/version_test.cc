#include "base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun {
namespace {

using testing::MatchesRegex;

TEST(Version, IsThePlainNumberThatMembersCompare) {
  EXPECT_THAT(Version(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

/// Tests get no commit, so that a new one does not relink them; the programs' own tests check it.
TEST(Version, LineNamesCommitAndLibraries) {
  EXPECT_EQ(VersionLine("mtrun", "gRPC 1.51.1"), "mtrun " + Version() + " (commit unknown, gRPC 1.51.1)");
  EXPECT_EQ(VersionLine("mtdata"), "mtdata " + Version() + " (commit unknown)");
}

}  // namespace
}  // namespace mtrun
