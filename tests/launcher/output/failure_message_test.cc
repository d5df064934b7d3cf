#include "launcher/output/failure_message.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::EndsWith;
using testing::SizeIs;

constexpr char kLog[] = "/logs/attempt_0/1/stderr.log";

/// Returns "line 1" to "line N".
std::vector<std::string> Numbered(int lines) {
  std::vector<std::string> made;
  for (int i = 1; i <= lines; ++i) made.push_back(absl::StrCat("line ", i));
  return made;
}

TEST(FailureMessageTest, ShortMessageIsShownWhole) {
  EXPECT_THAT(Excerpt("ValueError: x\nTraceback\n", kLog), ElementsAre("ValueError: x", "Traceback"));
  EXPECT_THAT(Excerpt(absl::StrJoin(Numbered(12), "\n"), kLog), ElementsAreArray(Numbered(12)));
}

TEST(FailureMessageTest, FirstAndLastLinesOfALongRecordAreShown) {
  EXPECT_THAT(Excerpt(absl::StrJoin(Numbered(300), "\n"), kLog),
              ElementsAre("line 1", "line 2", "line 3", "...", "line 293", "line 294", "line 295", "line 296",
                          "line 297", "line 298", "line 299", "line 300",
                          "(289 more lines in /logs/attempt_0/1/error.json)"));
}

TEST(FailureMessageTest, LastLinesOfPrintedOutputAreShown) {
  std::vector<std::string> lines = Numbered(20);
  lines.insert(lines.begin(), std::string(kTailHeading));
  const std::vector<std::string> shown = Excerpt(absl::StrJoin(lines, "\n"), kLog);
  ASSERT_THAT(shown, SizeIs(13));
  EXPECT_EQ(shown[0], kTailHeading);
  EXPECT_EQ(shown[1], "line 10");
  EXPECT_EQ(shown[11], "line 20");
  EXPECT_EQ(shown[12], "(9 more lines, and all before them in /logs/attempt_0/1/stderr.log)");
}

TEST(FailureMessageTest, ThirteenLinesHideTwo) {
  EXPECT_THAT(Excerpt(absl::StrJoin(Numbered(13), "\n"), "").back(), "(2 more lines)");
}

TEST(FailureMessageTest, OverlongLineIsClippedBetweenCharacters) {
  std::string umlauts;
  for (int i = 0; i < 600; ++i) umlauts += "ä";
  const std::vector<std::string> shown = Excerpt(umlauts, kLog);
  ASSERT_THAT(shown, SizeIs(1));
  EXPECT_EQ(shown[0].size(), 2 * (kMaxColumns - 4) + 4);
  EXPECT_THAT(shown[0], EndsWith("ä ..."));
}

TEST(FailureMessageTest, GistIsTheErrorItself) {
  EXPECT_EQ(Gist("ValueError: x\nTraceback\nValueError: x"), "ValueError: x");
  EXPECT_EQ(Gist(absl::StrCat(kTailHeading, "\nTraceback\nValueError: y")), "ValueError: y");
  EXPECT_EQ(Gist("(1, 2) is no shape\nTraceback"), "(1, 2) is no shape");
  EXPECT_EQ(Gist(""), "");
}

TEST(FailureMessageTest, ErrorFileIsNextToItsLog) {
  EXPECT_EQ(ErrorFileBeside(kLog), "/logs/attempt_0/1/error.json");
  EXPECT_EQ(ErrorFileBeside(""), "");
  EXPECT_EQ(ErrorFileBeside("/logs/other.log"), "");
}

}  // namespace
}  // namespace mtrun::launcher
