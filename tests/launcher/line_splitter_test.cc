#include "launcher/line_splitter.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Piece::Kind;

TEST(LineSplitterTest, CutsAtNewlines) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed("one\ntw"), ElementsAre(Piece{Kind::kLine, "one", "one\n"}));
  EXPECT_THAT(splitter.Feed("o\n\n"),
              ElementsAre(Piece{Kind::kLine, "two", "two\n"}, Piece{Kind::kLine, "", "\n"}));
  EXPECT_THAT(splitter.Flush(), IsEmpty());
}

TEST(LineSplitterTest, AReturnAloneIsAnUpdate) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed("10%\r20%\r"), ElementsAre(Piece{Kind::kUpdate, "10%", "10%\r"}));
  EXPECT_THAT(splitter.Feed("done\n"),
              ElementsAre(Piece{Kind::kUpdate, "20%", "20%\r"}, Piece{Kind::kLine, "done", "done\n"}));
}

TEST(LineSplitterTest, AReturnBeforeANewlineBelongsToIt) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed("dos\r"), IsEmpty());
  EXPECT_THAT(splitter.Feed("\nnext"), ElementsAre(Piece{Kind::kLine, "dos", "dos\r\n"}));
  EXPECT_THAT(splitter.Flush(), ElementsAre(Piece{Kind::kPart, "next", "next"}));
}

TEST(LineSplitterTest, LongLinesAreCutAtTheBound) {
  LineSplitter splitter(4);
  EXPECT_THAT(splitter.Feed("abcdefghi\n"),
              ElementsAre(Piece{Kind::kPart, "abcd", "abcd"}, Piece{Kind::kPart, "efgh", "efgh"},
                          Piece{Kind::kLine, "i", "i\n"}));
}

TEST(LineSplitterTest, NoByteIsLostHoweverItIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    LineSplitter splitter(1 + random() % 9);
    std::string all, seen;
    const auto take = [&](const std::vector<Piece>& pieces) {
      for (const Piece& piece : pieces) seen += piece.raw;
    };
    for (int i = 0; i < 20; ++i) {
      std::string bytes;
      for (unsigned j = random() % 6; j > 0; --j) bytes += "ab\r\n\0"[random() % 5];
      all += bytes;
      take(splitter.Feed(bytes));
    }
    take(splitter.Flush());
    EXPECT_EQ(seen, all);
  }
}

TEST(TailBufferTest, KeepsTheLastLines) {
  TailBuffer tail;
  EXPECT_EQ(tail.Text(), "");
  for (int i = 0; i < 100; ++i) tail.Add(absl::StrCat("line ", i));
  EXPECT_EQ(tail.Text().substr(0, 8), "line 80\n");
  EXPECT_EQ(tail.Text().substr(tail.Text().size() - 7), "line 99");
  tail.Add(std::string(5000, 'x'));
  EXPECT_LT(tail.Text().size(), 1000u);
}

}  // namespace
}  // namespace mtrun::launcher
