#include "datasets/files/shell_word.h"

#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

TEST(ShellWordTest, QuotesOnlyIfNeeded) {
  EXPECT_EQ(ShellWord("/a/b-c_1.tar.gz"), "/a/b-c_1.tar.gz");
  EXPECT_EQ(ShellWord("my photos"), "'my photos'");
  EXPECT_EQ(ShellWord("it's $1"), "'it'\\''s $1'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace mtrun::datasets
