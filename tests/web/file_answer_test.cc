#include "web/file_answer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::web {
namespace {

using testing::Contains;
using testing::Pair;

constexpr FileFacts kFacts{.size = 1000, .inode = 7, .changed_ns = 12345};

Response Ask(std::map<std::string, std::string> headers) {
  return AnswerFile({.method = "GET", .path = "/x", .headers = std::move(headers)}, kFacts, "text/a");
}

TEST(FileAnswer, ReturnsTheWholeFile) {
  const Response response = Ask({});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.length(), 1000);
  EXPECT_THAT(response.headers, Contains(Pair("ETag", EntityTag(kFacts))));
  EXPECT_THAT(response.headers, Contains(Pair("Accept-Ranges", "bytes")));
}

TEST(FileAnswer, ReturnsAPart) {
  const Response response = Ask({{"range", "bytes=100-199"}});
  EXPECT_EQ(response.status, 206);
  EXPECT_EQ(response.file, (FileBody{nullptr, 100, 100}));
  EXPECT_THAT(response.headers, Contains(Pair("Content-Range", "bytes 100-199/1000")));
}

TEST(FileAnswer, RefusesAPartBeyondTheEnd) {
  const Response response = Ask({{"range", "bytes=1000-"}});
  EXPECT_EQ(response.status, 416);
  EXPECT_FALSE(response.file);
  EXPECT_THAT(response.headers, Contains(Pair("Content-Range", "bytes */1000")));
}

TEST(FileAnswer, UnchangedIsNotSentAgain) {
  EXPECT_EQ(Ask({{"if-none-match", "\"a\", W/" + EntityTag(kFacts)}}).status, 304);
  EXPECT_EQ(Ask({{"if-none-match", "*"}}).status, 304);
  EXPECT_EQ(Ask({{"if-none-match", "\"a\""}}).status, 200);
}

TEST(FileAnswer, RangeOfAChangedFileIsTheWholeFile) {
  EXPECT_EQ(Ask({{"range", "bytes=1-2"}, {"if-range", "\"other\""}}).status, 200);
  EXPECT_EQ(Ask({{"range", "bytes=1-2"}, {"if-range", EntityTag(kFacts)}}).status, 206);
}

TEST(FileAnswer, RewrittenFileHasAnotherTag) {
  FileFacts other = kFacts;
  other.changed_ns += 1;
  EXPECT_NE(EntityTag(kFacts), EntityTag(other));
}

}  // namespace
}  // namespace mtrun::web
