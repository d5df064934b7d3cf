#include "base/terminal.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace mtrun {
namespace {

TEST(Terminal, EscapeSequencesHaveNoWidth) {
  EXPECT_EQ(ColumnsOf("step 5"), 6);
  EXPECT_EQ(ColumnsOf("\x1b[1mstep\x1b[0m 5"), 6);
  EXPECT_EQ(ColumnsOf("\x1b[38;5;208mx\x1b[K"), 1);
  EXPECT_EQ(ColumnsOf("größe"), 5) << "a character of UTF-8 is one column";
}

TEST(Terminal, LineIsClippedToColumns) {
  EXPECT_EQ(ClipColumns("step 1234", 6), "step 1");
  EXPECT_EQ(ClipColumns("step", 6), "step");
  EXPECT_EQ(ClipColumns("größe", 3), "grö");
  EXPECT_EQ(ClipColumns("\x1b[1mstep 1234\x1b[0m", 4), "\x1b[1mstep\x1b[0m") << "the colour ends";
  EXPECT_EQ(ClipColumns("\x1b[1mstep\x1b[0m", 0), "\x1b[1m\x1b[0m");
}

TEST(Terminal, LineIsWrappedAtBlanks) {
  EXPECT_EQ(WrapColumns("step 1234 is done", 20, 2), "step 1234 is done");
  EXPECT_EQ(WrapColumns("step 1234 is done", 9, 2), "step 1234\n  is done");
  EXPECT_EQ(WrapColumns("  a  größe b", 10, 4), "  a  größe\n    b") << "blanks between words stay";
  EXPECT_EQ(WrapColumns("see /a/very/long/path.log there", 10, 2), "see\n  /a/very/long/path.log\n  there");
  EXPECT_EQ(WrapColumns("/a/very/long/path", 4, 2), "/a/very/long/path");
  EXPECT_EQ(WrapColumns("\x1b[1mone two\x1b[0m", 7, 2), "\x1b[1mone two\x1b[0m");
  EXPECT_EQ(WrapColumns("one   ", 3, 2), "one\n  ");
  EXPECT_EQ(WrapColumns("", 4, 2), "");
}

TEST(Terminal, LineIsWrappedOnlyForATerminalThatIsWideEnough) {
  const std::string line = "14:37:44.123 cnnA W the data server does not answer";
  EXPECT_EQ(BreakForPeople(line, 48), "14:37:44.123 cnnA W the data server does not\n        answer");
  EXPECT_EQ(BreakForPeople(line, 80), line);
  EXPECT_EQ(BreakForPeople(line, 20), line);
  EXPECT_EQ(BreakForPeople(line, 0), line);
  EXPECT_EQ(BreakForPeople(std::string(48, 'x'), 48), std::string(48, 'x')) << "no blank";
}

TEST(Terminal, EachLineOfATextIsWrapped) {
  const std::string text =
      "cnnA   " + std::string(20, 'x') + " trains\n\nshort\n" + std::string(30, 'y') + " last words";
  EXPECT_EQ(BreakLinesForPeople(text, 40, 7), "cnnA   " + std::string(20, 'x') + " trains\n\nshort\n" +
                                                  std::string(30, 'y') + " last\n       words");
  EXPECT_EQ(BreakLinesForPeople(text, 0), text);
  EXPECT_EQ(BreakLinesForPeople("", 80), "");
}

TEST(Terminal, FileGetsNoEscapes) {
  EXPECT_EQ(WithoutEscapes("\x1b[1mstep\x1b[0m 5\x1b[K"), "step 5");
  EXPECT_EQ(WithoutEscapes("cut off \x1b[1"), "cut off ");
  EXPECT_EQ(WithoutEscapes("cut off \x1b"), "cut off ");
}

TEST(Terminal, NoColorIsHonoured) {
  EXPECT_TRUE(WantsColours({}));
  EXPECT_TRUE(WantsColours({{"NO_COLOR", ""}}));
  EXPECT_FALSE(WantsColours({{"NO_COLOR", "1"}}));
  EXPECT_FALSE(WantsColours({{"TERM", "dumb"}}));
  EXPECT_EQ(Coloured("x", "31", true), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(Coloured("x", "31", false), "x");
  EXPECT_EQ(Coloured("x", "", true), "x");
}

TEST(Terminal, PipeIsNotATerminal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(TerminalSize::Of(ends[1]), (TerminalSize{0, 0}));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace mtrun
