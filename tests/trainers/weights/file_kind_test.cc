#include "trainers/weights/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

TEST(FileKind, SafetensorsIsNoOtherKind) {
  EXPECT_EQ(OtherKind(absl::string_view("\x40\0\0\0\0\0\0\0{\"a\"", 12)), "");
  EXPECT_EQ(OtherKind(absl::string_view("\x80\2\0\0\0\0\0\0{\"a\"", 12)), "")
      << "a length like a pickle's start";
}

TEST(FileKind, KindsAreNamed) {
  EXPECT_THAT(OtherKind("\n <HTML><body>"), HasSubstr("a web page"));
  EXPECT_THAT(OtherKind("\x80\4\x95"), HasSubstr("a Python pickle that torch.save did not write"));
  EXPECT_THAT(OtherKind("\x93NUMPY\1"), HasSubstr("an array of NumPy"));
  EXPECT_THAT(OtherKind("BZh91AY"), HasSubstr("a bzip2 file"));
  EXPECT_THAT(OtherKind(""), HasSubstr("an empty file"));
}

/// Its first 8 bytes were read as a length of 8027224784686512499 bytes.
TEST(FileKind, OtherBytesAreShownAndNotTakenForALength) {
  EXPECT_THAT(OtherKind("some text of any kind"), HasSubstr("it begins with \"some tex\""));
  EXPECT_THAT(OtherKind("\x1b[31m"), HasSubstr("\\x1b[31m")) << "a terminal must not see it";
}

}  // namespace
}  // namespace mtrun::trainers
