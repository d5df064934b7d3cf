#include "launcher/output/line_splitter.h"

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
  EXPECT_THAT(splitter.Feed("one\ntw"), ElementsAre(Piece{Kind::kLine, "one", 4}));
  EXPECT_THAT(splitter.Feed("o\n\n"), ElementsAre(Piece{Kind::kLine, "two", 4}, Piece{Kind::kLine, "", 1}));
  EXPECT_THAT(splitter.Flush(), IsEmpty());
}

TEST(LineSplitterTest, LastUpdateIsKeptUntilMoreArrives) {
  LineSplitter splitter;
  EXPECT_EQ(splitter.Standing(), std::nullopt);
  splitter.Feed("10%\r20%\r");
  EXPECT_EQ(splitter.Standing(), "20%");
  splitter.Feed("30");
  EXPECT_EQ(splitter.Standing(), std::nullopt) << "not whole yet";
  splitter.Feed("%\r");
  EXPECT_EQ(splitter.Standing(), "30%");
}

TEST(LineSplitterTest, CarriageReturnAloneIsAnUpdate) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed("10%\r20%\r"), ElementsAre(Piece{Kind::kUpdate, "10%", 4}));
  EXPECT_THAT(splitter.Feed("done\n"),
              ElementsAre(Piece{Kind::kUpdate, "20%", 4}, Piece{Kind::kLine, "done", 5}));
}

TEST(LineSplitterTest, CarriageReturnBeforeANewlineBelongsToIt) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.Feed("dos\r"), IsEmpty());
  EXPECT_THAT(splitter.Feed("\nnext"), ElementsAre(Piece{Kind::kLine, "dos", 5}));
  EXPECT_THAT(splitter.Flush(), ElementsAre(Piece{Kind::kPart, "next", 4}));
}

TEST(LineSplitterTest, OverlongLinesAreCutAtTheBound) {
  LineSplitter splitter(4);
  EXPECT_THAT(
      splitter.Feed("abcdefghi\n"),
      ElementsAre(Piece{Kind::kPart, "abcd", 4}, Piece{Kind::kPart, "efgh", 4}, Piece{Kind::kLine, "i", 2}));
}

TEST(LineSplitterTest, NoByteIsLostHoweverInputIsSplit) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    LineSplitter splitter(1 + random() % 9);
    std::string all;
    std::vector<Piece> seen;
    const auto take = [&](const std::vector<Piece>& pieces) {
      seen.insert(seen.end(), pieces.begin(), pieces.end());
    };
    for (int i = 0; i < 20; ++i) {
      std::string bytes;
      for (unsigned j = random() % 6; j > 0; --j) bytes += "ab\r\n\0"[random() % 5];
      all += bytes;
      take(splitter.Feed(bytes));
    }
    take(splitter.Flush());
    std::string_view rest = all;
    for (const Piece& piece : seen) {
      EXPECT_EQ(rest.substr(0, piece.text.size()), piece.text);
      const std::string_view end = rest.substr(piece.text.size(), piece.bytes - piece.text.size());
      EXPECT_THAT(end, piece.kind == Kind::kLine     ? testing::AnyOf("\n", "\r\n")
                       : piece.kind == Kind::kUpdate ? testing::AnyOf("\r", "\r")
                                                     : testing::AnyOf("", ""));
      rest.remove_prefix(piece.bytes);
    }
    EXPECT_EQ(rest, "");
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
