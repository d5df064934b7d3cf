#include "base/error_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/posix.h"
#include "nlohmann/json.hpp"

namespace mtrun {
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

TEST(ErrorFileTest, HasTorchrunsShape) {
  const auto json = nlohmann::json::parse(ErrorFileText("the loss is \"nan\"", 1700000000));
  EXPECT_EQ(json["message"]["message"], "the loss is \"nan\"");
  EXPECT_EQ(json["message"]["extraInfo"]["timestamp"], "1700000000");
}

TEST(ErrorFileTest, BytesThatAreNotTextDoNotThrow) { EXPECT_NE(ErrorFileText("\xff\xfe", 0), ""); }

TEST(ErrorFileTest, NoPathIsFineAndAPathIsWritten) {
  EXPECT_TRUE(WriteErrorFile("", "x").ok());
  const std::string folder = *MakeTemporaryFolder("mtrun_error_");
  ASSERT_TRUE(WriteErrorFile(folder + "/error.json", "x").ok());
  EXPECT_EQ(nlohmann::json::parse(*ReadFile(folder + "/error.json"))["message"]["message"], "x");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mtrun
