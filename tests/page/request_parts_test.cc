#include "page/request_parts.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::page {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::Pair;

TEST(RequestPartsTest, TokenIsThatOfTypeBearer) {
  EXPECT_EQ(BearerIn("Bearer abc"), "abc");
  EXPECT_EQ(BearerIn(" bearer  a b "), "a b");
  EXPECT_EQ(BearerIn("Bearer"), "");
  EXPECT_EQ(BearerIn("Bearer "), "");
  EXPECT_EQ(BearerIn("Basic YTpi"), "");
  EXPECT_EQ(BearerIn("abc"), "");
  EXPECT_EQ(BearerIn(""), "");
}

TEST(RequestPartsTest, AFormIsDecodedOrRefused) {
  EXPECT_THAT(ParseForm("a=1&b=x+y%21&c&a=2"),
              Optional(ElementsAre(Pair("a", "2"), Pair("b", "x y!"), Pair("c", ""))));
  EXPECT_EQ(ParseForm("a=%2"), std::nullopt);
  EXPECT_EQ(ParseForm("a=%zz"), std::nullopt);
  EXPECT_EQ(ParseForm("%=1"), std::nullopt);
  EXPECT_EQ(ParseForm("job=%ff"), std::nullopt);
  EXPECT_EQ(ParseForm("%c3=1"), std::nullopt);
  EXPECT_THAT(ParseForm("job=%c3%a4"), Optional(ElementsAre(Pair("job", "\xC3\xA4"))));
  std::string many;
  for (size_t i = 0; i <= kMaxFields; ++i) absl::StrAppend(&many, "f", i, "=1&");
  EXPECT_EQ(ParseForm(many), std::nullopt);
}

TEST(RequestPartsTest, OnlyBasicCredentialsCount) {
  EXPECT_EQ(BasicPasswordIn("Basic " + absl::Base64Escape("anyone:pass:word")), "pass:word");
  EXPECT_EQ(BasicPasswordIn("basic " + absl::Base64Escape(":p")), "p");
  EXPECT_EQ(BasicPasswordIn("Bearer abc"), std::nullopt);
  EXPECT_EQ(BasicPasswordIn("Basic ***"), std::nullopt);
  EXPECT_EQ(BasicPasswordIn("Basic " + absl::Base64Escape("nocolon")), std::nullopt);
}

TEST(RequestPartsTest, HostIsParsedWithoutItsPort) {
  EXPECT_EQ(HostIn("Node1.Example:8080"), "node1.example");
  EXPECT_EQ(HostIn("[::1]:8080"), "::1");
  EXPECT_EQ(HostIn("127.0.0.1"), "127.0.0.1");
  for (const char* bad :
       {"", ":80", "a:b", "a:99999", "[::1", "[evil.example]", "a b", "a/b", "a@b", "[::1]x"})
    EXPECT_EQ(HostIn(bad), std::nullopt) << bad;
  EXPECT_EQ(HostIn(std::string_view("[::\0<b>]", 8)), std::nullopt) << "found by fuzzing";
  EXPECT_EQ(HostIn("[fe80::1%<b>]"), std::nullopt);
  EXPECT_EQ(HostIn("[fe80::1%eth0]:80"), "fe80::1%eth0");
}

TEST(RequestPartsTest, ForeignNamesAreNotOurHost) {
  EXPECT_TRUE(IsOurHost("localhost:9", {}));
  EXPECT_TRUE(IsOurHost("10.0.0.7:8080", {}));
  EXPECT_TRUE(IsOurHost("[fe80::1]", {}));
  EXPECT_TRUE(IsOurHost("Node1:8080", {"node1"}));
  EXPECT_FALSE(IsOurHost("rebound.example:8080", {"node1"}));
  EXPECT_FALSE(IsOurHost("localhost.evil.example", {"node1"}));
  EXPECT_FALSE(IsOurHost("", {""}));
}

TEST(RequestPartsTest, OriginMustMatchTheHost) {
  EXPECT_TRUE(IsOwnOrigin("http://localhost:8080", "localhost:8080", false));
  EXPECT_TRUE(IsOwnOrigin("https://node1", "node1", true));
  EXPECT_FALSE(IsOwnOrigin("http://localhost:8081", "localhost:8080", false));
  EXPECT_FALSE(IsOwnOrigin("http://node1", "node1", true));
  EXPECT_FALSE(IsOwnOrigin("null", "node1", false));
  EXPECT_FALSE(IsOwnOrigin("", "node1", false));
  EXPECT_FALSE(IsOwnOrigin("http://", "", false));
}

}  // namespace
}  // namespace mtrun::page
