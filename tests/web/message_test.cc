#include "web/message.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::web {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(MessageTest, TargetIsAPathWithAnOptionalQuery) {
  Request request;
  EXPECT_TRUE(ReadTarget("/a%20b/c?x=1&y=?2", &request));
  EXPECT_EQ(request.path, "/a%20b/c");
  EXPECT_EQ(request.query, "x=1&y=?2");
  EXPECT_TRUE(ReadTarget("/", &request));
  EXPECT_EQ(request, Request({.path = "/"}));
  for (const char* target : {"", "*", "a", "?x", "http://host/path"})
    EXPECT_FALSE(ReadTarget(target, &request));
}

TEST(MessageTest, ResponseHasOnlyTheNecessaryHeaders) {
  const Response response = {.content_type = "text/html", .body = "<p>", .headers = {{"ETag", "\"1\""}}};
  const std::string head =
      "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Type: text/html\r\nContent-Length: 3\r\n"
      "Connection: close\r\n\r\n";
  EXPECT_EQ(ToBytes(response, true), head + "<p>");
  EXPECT_EQ(ToBytes(response, false), head);
}

TEST(MessageTest, LiveBodyEndsWithItsConnection) {
  EXPECT_EQ(ToBytes({.content_type = "text/a", .body = "x", .live = std::make_shared<LiveBody>()}, true),
            "HTTP/1.1 200 OK\r\nContent-Type: text/a\r\nConnection: close\r\n\r\n");
}

TEST(MessageTest, SomeStatusesHaveNoBody) {
  EXPECT_EQ(ToBytes({.status = 304, .body = "x"}, true),
            "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(ToBytes({.status = 204}, true), "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
}

TEST(MessageTest, StatusAloneHasItsNameAsTheBody) {
  const Response missing = StatusResponse(404);
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, "Not Found\n");
}

/// Also those that no page has seen: 404, 405, 431.
TEST(MessageTest, StatusAloneIsNoPageForABrowser) {
  for (const int status : {400, 404, 405, 431, 500}) {
    const std::string bytes = ToBytes(StatusResponse(status), true);
    EXPECT_THAT(bytes, HasSubstr("X-Content-Type-Options: nosniff\r\n")) << status;
    EXPECT_THAT(bytes, HasSubstr("Content-Security-Policy: default-src 'none'")) << status;
    EXPECT_THAT(bytes, HasSubstr("Cache-Control: no-store\r\n")) << status;
  }
}

TEST(MessageTest, ResponseThatWouldBreakTheProtocolIsA500) {
  const std::vector<Response> wrong = {{.status = 100},
                                       {.status = 600},
                                       {.status = -1},
                                       {.content_type = "a\nb"},
                                       {.headers = {{"Location", "/x\r\nSet-Cookie: y"}}},
                                       {.headers = {{"A\r\nB", ""}}}};
  for (const Response& response : wrong) {
    const std::string bytes = ToBytes(response, true);
    EXPECT_THAT(bytes, StartsWith("HTTP/1.1 500 Internal Server Error\r\n"));
    EXPECT_THAT(bytes, Not(HasSubstr("Set-Cookie")));
  }
}

}  // namespace
}  // namespace mtrun::web
