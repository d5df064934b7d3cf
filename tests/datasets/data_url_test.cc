#include "datasets/packed/data_url.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

DataUrl Parsed(const std::string& text) {
  const auto url = ParseDataUrl(text);
  EXPECT_TRUE(url.ok()) << text << ": " << url.status();
  return url.value_or(DataUrl{});
}

TEST(DataUrlTest, RecognizesUrls) {
  EXPECT_TRUE(IsDataUrl("https://host/set"));
  EXPECT_TRUE(IsDataUrl("ftp://host/set"));  // refused by name, not looked up as a folder
  for (const char* text : {"data/set", "/data/set", "", "://x", "a b://x", "./https://x"})
    EXPECT_FALSE(IsDataUrl(text)) << text;
}

TEST(DataUrlTest, RoundTripsItsParts) {
  EXPECT_EQ(Parsed("https://host:8443/a/b/"), (DataUrl{"https", "host", 8443, "/a/b"}));
  EXPECT_EQ(Parsed("HTTPS://host"), (DataUrl{"https", "host", 443, ""}));
  EXPECT_EQ(Parsed("http://127.0.0.1:80/x"), (DataUrl{"http", "127.0.0.1", 80, "/x"}));
  EXPECT_EQ(Parsed("https://[fd00::1]:9/x"), (DataUrl{"https", "fd00::1", 9, "/x"}));
  EXPECT_EQ(Parsed("s3://bucket/some/set"), (DataUrl{"s3", "bucket", 0, "/some/set"}));
  for (const char* text :
       {"https://host:8443/a/b", "https://host/a", "https://[fd00::1]:9/x", "s3://bucket/set"})
    EXPECT_EQ(ToText(Parsed(text)), text);
}

TEST(DataUrlTest, RefusesInvalidUrls) {
  for (const char* text :
       {"ftp://host/x", "https://", "https:///x", "https://user@host/x", "https://host/x?y=1",
        "https://host/x#y", "https://host/../x", "https://host/a/./b", "https://host:0/x",
        "https://host:99999/x", "https://host:a/x", "http://example.org/x", "https://ho st/x",
        "https://host/a b", "https://host/a\\b", "s3://bucket:80/x", "https://[::1/x", "https://ho\"st/x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseDataUrl(text).status())) << text;
  }
}

TEST(DataUrlTest, PathWithAnyNamesHasAUrl) {
  EXPECT_EQ(PathInUrl("a/my set/50% #1?"), "a/my%20set/50%25%20%231%3F");
  EXPECT_EQ(PathInUrl("\xC3\xA9-1._~"), "%C3%A9-1._~");
  std::string every;
  for (int c = 1; c < 256; ++c) every += static_cast<char>(c);
  EXPECT_TRUE(ParseDataUrl("https://host/" + PathInUrl(every) + "/x").ok());
}

}  // namespace
}  // namespace mtrun::datasets
