#include "base/error_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
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

TEST(ErrorFileTest, DeepNestingIsAnErrorWithoutACrash) {
  const std::string open(3'000'000, '['), close(3'000'000, ']');
  for (const std::string& text :
       {absl::StrCat(R"({"message":"no","timestamp":)", open, close, "}"),
        absl::StrCat(R"({"message":{"message":)", open, close, "}}"),
        absl::StrCat(R"({"message":{"message":"no","extraInfo":{"py_callstack":)", open, close, "}}}"),
        open}) {
    const auto record = ParseErrorFile(text);
    EXPECT_EQ(record.status().code(), absl::StatusCode::kInvalidArgument) << record.status();
  }
}

TEST(ErrorFileTest, UnreadableFileIsReportedWithItsFirstBytes) {
  const std::string folder = *MakeTemporaryFolder("mtrun_error_"), path = folder + "/error.json";
  const auto message = [&](const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return std::string(ReadErrorFile(path).status().message());
  };
  EXPECT_EQ(message(R"({"message":"no"})"), "");
  EXPECT_EQ(message("ValueError:\n\x1b[2J no"),
            path + ": not valid JSON at byte 1: truncated or malformed; it begins with: ValueError:  [2J no");
  EXPECT_EQ(message(""), path + ": not valid JSON at byte 1: truncated or malformed");
  const std::string long_message = message(absl::StrCat(R"({"message":")", std::string(2 << 20, 'x'), "\"}"));
  EXPECT_EQ(long_message, absl::StrCat(path, ": longer than 1048576 bytes, the limit; it begins with: ",
                                       R"({"message":")", std::string(988, 'x'), "..."));
  EXPECT_TRUE(absl::IsNotFound(ReadErrorFile(folder + "/none").status()));
  std::filesystem::remove_all(folder);
}

TEST(ErrorFileTest, HasTorchrunsShape) {
  const auto json = nlohmann::json::parse(ErrorFileText("the loss is \"nan\"", 1700000000));
  EXPECT_EQ(json["message"]["message"], "the loss is \"nan\"");
  EXPECT_EQ(json["message"]["extraInfo"]["timestamp"], "1700000000");
}

TEST(ErrorFileTest, BytesThatAreNotTextDoNotThrow) { EXPECT_NE(ErrorFileText("\xff\xfe", 0), ""); }

TEST(ErrorFileTest, WritesToThePathIfThereIsOne) {
  EXPECT_TRUE(WriteErrorFile("", "x").ok());
  const std::string folder = *MakeTemporaryFolder("mtrun_error_");
  ASSERT_TRUE(WriteErrorFile(folder + "/error.json", "x").ok());
  EXPECT_EQ(nlohmann::json::parse(*ReadFile(folder + "/error.json"))["message"]["message"], "x");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mtrun
