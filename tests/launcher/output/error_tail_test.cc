#include "launcher/output/error_tail.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(ErrorTailTest, KeepsTheLastLinesWithoutUpdates) {
  ErrorTail tail;
  std::vector<Piece> pieces;
  for (int i = 0; i < 500; ++i) pieces.push_back({.text = std::to_string(i)});
  pieces.push_back({.kind = Piece::Kind::kUpdate, .text = "10 %"});
  tail.Add(pieces, 1);
  EXPECT_THAT(tail.Text(), testing::StartsWith("480\n481\n"));
  EXPECT_THAT(tail.Text(), testing::EndsWith("\n499"));
  EXPECT_FALSE(tail.traceback().has_value());
}

int64_t TracebackAt(const ErrorTail& tail) { return tail.traceback() ? tail.traceback()->at_ns : -1; }

TEST(ErrorTailTest, RecordsTheTimeOfTheLastTraceback) {
  ErrorTail tail;
  tail.Add({{.text = "Traceback (most recent call last):"}, {.text = "ValueError"}}, 5);
  EXPECT_EQ(TracebackAt(tail), 5);
  tail.Add({{.text = "no Traceback"}}, 6);
  EXPECT_EQ(TracebackAt(tail), 5);
  std::vector<Piece> long_one = {{.text = "[rank3]: Traceback (most recent call last):"}};
  for (int i = 0; i < 500; ++i) long_one.push_back({.text = "  File"});
  tail.Add(long_one, 7);
  EXPECT_EQ(TracebackAt(tail), 7) << "its beginning is no longer among the last lines";
}

TEST(ErrorTailTest, DetectsOutputAfterATraceback) {
  constexpr int64_t kSecond = 1'000'000'000;
  ErrorTail tail;
  tail.Add({{.text = "Traceback (most recent call last):"}}, kSecond);
  tail.Add({{.text = "ValueError"}}, 2 * kSecond);
  EXPECT_TRUE(tail.traceback()->is_last);
  tail.Add({{.kind = Piece::Kind::kUpdate, .text = "10 %"}}, 2 * kSecond + 1);
  EXPECT_FALSE(tail.traceback()->is_last);
  tail.Add({{.text = "Traceback (most recent call last):"}}, 9 * kSecond);
  EXPECT_TRUE(tail.traceback()->is_last);
}

}  // namespace
}  // namespace mtrun::launcher
