#include "base/json_text.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtrun {
namespace {

constexpr size_t kMost = 1 << 20;

std::string Nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string ErrorOf(const std::string& text, size_t most = kMost, int depth = kMaxJsonDepth) {
  const auto value = ParseJson(text, most, depth);
  EXPECT_TRUE(value.ok() || absl::IsInvalidArgument(value.status())) << value.status();
  return std::string(value.status().message());
}

TEST(JsonTextTest, ReadsValues) {
  EXPECT_EQ((*ParseJson(R"({"a": [1, "[[[", "\"{"]})", kMost))["a"][0], 1);
  EXPECT_EQ(*ParseJson("7", kMost), 7);
  EXPECT_EQ((*ParseJsonObject(R"({"a": 1})", kMost))["a"], 1);
}

TEST(JsonTextTest, DepthIsBounded) {
  EXPECT_EQ(ErrorOf(Nested(64)), "");
  EXPECT_EQ(ErrorOf(Nested(65)), "nested deeper than 64 levels at byte 64: reduce the nesting");
  EXPECT_EQ(ErrorOf(R"({"a": {"b": [0]}})", kMost, 2),
            "nested deeper than 2 levels at byte 12: reduce the nesting");
  EXPECT_TRUE(absl::StartsWith(ErrorOf(std::string(1 << 20, '{')), "nested deeper"));
  EXPECT_EQ(ErrorOf(absl::StrCat("\"", std::string(1000, '['), "\\\"[\"")), "") << "brackets of a string";
}

TEST(JsonTextTest, SizeIsBounded) {
  EXPECT_EQ(ErrorOf("[1]", 3), "");
  EXPECT_EQ(ErrorOf("[12]", 3), "longer than 3 bytes, the limit");
}

TEST(JsonTextTest, ErrorGivesTheOffsetAndDoesNotQuote) {
  EXPECT_EQ(ErrorOf("[1,"), "not valid JSON at byte 4: truncated or malformed");
  EXPECT_TRUE(absl::StartsWith(ErrorOf(std::string(1000, 'x')), "not valid JSON at byte 1:"));
  EXPECT_LT(ErrorOf(absl::StrCat("\"", std::string(1000, 'x'))).size(), 100u);
  for (const char* bad : {"", "]", "[1]]", "{\"a\": \xff}", "1e999", "nope", "\"\\ud800\""})
    EXPECT_NE(ErrorOf(bad), "") << bad;
}

TEST(JsonTextTest, AcceptsObjectsOnly) {
  for (const char* bad : {"", "{", "[1]", "3", "nope", "{\"a\": \xff}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseJsonObject(bad, kMost).status())) << bad;
  }
}

TEST(JsonTextTest, IntegersMustFit) {
  EXPECT_EQ(WholeNumber<int>(nlohmann::json(-7)), -7);
  EXPECT_EQ(WholeNumber<int64_t>(nlohmann::json(~0ULL)), std::nullopt);
  EXPECT_EQ(WholeNumber<uint64_t>(nlohmann::json(~0ULL)), ~0ULL);
  EXPECT_EQ(WholeNumber<uint64_t>(nlohmann::json(-1)), std::nullopt);
  EXPECT_EQ(WholeNumber<int>(nlohmann::json(1.0)), std::nullopt);
  EXPECT_EQ(WholeNumber<int>(nlohmann::json()), std::nullopt);
}

}  // namespace
}  // namespace mtrun
