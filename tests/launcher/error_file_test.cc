#include "launcher/error_file.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(ErrorFileTest, ReadsTheNestedForm) {
  const auto record = ParseErrorFile(
      R"({"message":{"message":"ValueError: no","extraInfo":{"py_callstack":"Traceback\n at x","timestamp":"1700000000"}}})");
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(*record, (ErrorRecord{"ValueError: no", "Traceback\n at x", "1700000000"}));
}

TEST(ErrorFileTest, ReadsTheFlatFormWithBothKindsOfTime) {
  EXPECT_EQ(*ParseErrorFile(R"({"message":"no","timestamp":17})"), (ErrorRecord{"no", "", "17"}));
  EXPECT_EQ(*ParseErrorFile(R"({"message":"no","timestamp":"17"})"), (ErrorRecord{"no", "", "17"}));
  EXPECT_EQ(*ParseErrorFile(R"({"message":"no"})"), (ErrorRecord{"no", "", ""}));
}

TEST(ErrorFileTest, RefusesAnythingElse) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"message":7})", R"({"message":{}})", R"({"message":{"msg":"x"}})"}) {
    EXPECT_EQ(ParseErrorFile(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace mtrun::launcher
