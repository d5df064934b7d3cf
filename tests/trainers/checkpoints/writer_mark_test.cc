#include "trainers/checkpoints/writer_mark.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace mtrun::checkpoints {
namespace {

TEST(WriterMarkTest, MarkIsReadOnlyInTheSameFolder) {
  const support::TemporaryFolder shared, other;
  const WriterMark mark{.run = 0xabc, .generation = 7};
  EXPECT_FALSE(HasWriterMark(shared.path(), mark)) << "no file yet";
  ASSERT_TRUE(WriteWriterMark(shared.path(), mark).ok());
  EXPECT_TRUE(HasWriterMark(shared.path(), mark));
  EXPECT_FALSE(HasWriterMark(other.path(), mark));
}

TEST(WriterMarkTest, MarkOfAnotherGenerationOrRunDoesNotMatch) {
  const support::TemporaryFolder folder;
  ASSERT_TRUE(WriteWriterMark(folder.path(), {.run = 0xabc, .generation = 1234567}).ok());
  // Overwrite it with a shorter text.
  ASSERT_TRUE(WriteWriterMark(folder.path(), {.run = 0xabc, .generation = 7}).ok());
  EXPECT_TRUE(HasWriterMark(folder.path(), {.run = 0xabc, .generation = 7}));
  EXPECT_FALSE(HasWriterMark(folder.path(), {.run = 0xabc, .generation = 8}));
  EXPECT_FALSE(HasWriterMark(folder.path(), {.run = 0xabd, .generation = 7}));
}

TEST(WriterMarkTest, MissingFolderIsNamed) {
  const support::TemporaryFolder folder;
  const absl::Status status = WriteWriterMark(folder.path() + "/none", {});
  EXPECT_NE(std::string(status.message()).find("/none/.keeper"), std::string::npos) << status;
}

TEST(SeveralNodesTest, EitherMarkMeansThatOtherDisksMayHaveMore) {
  const support::TemporaryFolder noted, earlier, none;
  ASSERT_TRUE(MarkSeveralNodes(noted.path()).ok() && MarkSeveralNodes(noted.path()).ok());
  ASSERT_TRUE(WriteWriterMark(earlier.path(), {.run = 1, .generation = 1}).ok());
  EXPECT_TRUE(IsOfSeveralNodes(noted.path()));
  EXPECT_TRUE(IsOfSeveralNodes(earlier.path())) << "of an earlier release";
  EXPECT_FALSE(IsOfSeveralNodes(none.path()));
  EXPECT_FALSE(MarkSeveralNodes(none.path() + "/none").ok());
}

}  // namespace
}  // namespace mtrun::checkpoints
