#include "base/json_lines.h"

#include <gtest/gtest.h>

namespace mtrun {
namespace {

TEST(LineBuffer, ReturnsWholeLinesOnly) {
  LineBuffer lines;
  ASSERT_TRUE(lines.Append("one\ntw").ok());
  EXPECT_EQ(lines.Next(), "one");
  EXPECT_EQ(lines.Next(), std::nullopt);
  ASSERT_TRUE(lines.Append("o\n\nthree").ok());
  EXPECT_EQ(lines.Next(), "two");
  EXPECT_EQ(lines.Next(), "");
  EXPECT_EQ(lines.Next(), std::nullopt);
}

TEST(LineBuffer, AcceptsOneByteAtATime) {
  LineBuffer lines;
  const std::string text = "alpha\nbeta\n";
  std::vector<std::string> seen;
  for (const char c : text) {
    ASSERT_TRUE(lines.Append(std::string_view(&c, 1)).ok());
    while (auto line = lines.Next()) seen.push_back(*line);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"alpha", "beta"}));
}

TEST(LineBuffer, RefusesALineAboveTheBound) {
  LineBuffer lines(8);
  EXPECT_TRUE(lines.Append("12345678").ok());
  const absl::Status status = lines.Append("9");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("8 bytes"), std::string::npos);
}

TEST(LineBuffer, ManyShortLinesAreNotOneLongLine) {
  LineBuffer lines(8);
  EXPECT_TRUE(lines.Append("1234\n5678\n90\n").ok());
  EXPECT_EQ(lines.Next(), "1234");
}

}  // namespace
}  // namespace mtrun
