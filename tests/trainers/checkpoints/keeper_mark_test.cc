#include "trainers/checkpoints/keeper_mark.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace mtrun::checkpoints {
namespace {

TEST(KeeperMarkTest, WhoSharesTheFolderReadsTheMark) {
  const support::TemporaryFolder shared, other;
  const KeeperMark mark{.run = 0xabc, .generation = 7};
  EXPECT_FALSE(HasKeeperMark(shared.path(), mark)) << "no file yet";
  ASSERT_TRUE(WriteKeeperMark(shared.path(), mark).ok());
  EXPECT_TRUE(HasKeeperMark(shared.path(), mark));
  EXPECT_FALSE(HasKeeperMark(other.path(), mark));
}

TEST(KeeperMarkTest, AMarkOfAnotherMembershipOrRunIsNone) {
  const support::TemporaryFolder folder;
  ASSERT_TRUE(WriteKeeperMark(folder.path(), {.run = 0xabc, .generation = 1234567}).ok());
  // A shorter text in the same place.
  ASSERT_TRUE(WriteKeeperMark(folder.path(), {.run = 0xabc, .generation = 7}).ok());
  EXPECT_TRUE(HasKeeperMark(folder.path(), {.run = 0xabc, .generation = 7}));
  EXPECT_FALSE(HasKeeperMark(folder.path(), {.run = 0xabc, .generation = 8}));
  EXPECT_FALSE(HasKeeperMark(folder.path(), {.run = 0xabd, .generation = 7}));
}

TEST(KeeperMarkTest, AFolderThatIsNotThereIsNamed) {
  const support::TemporaryFolder folder;
  const absl::Status status = WriteKeeperMark(folder.path() + "/none", {});
  EXPECT_NE(std::string(status.message()).find("/none/.keeper"), std::string::npos) << status;
}

}  // namespace
}  // namespace mtrun::checkpoints
