#include "base/log.h"

#include <gtest/gtest.h>

namespace mtrun::log {
namespace {

TEST(Log, ParsesLevelsInAnyCase) {
  Level level = Level::kInfo;
  EXPECT_TRUE(ParseLevel("DEBUG", &level));
  EXPECT_EQ(level, Level::kDebug);
  EXPECT_TRUE(ParseLevel("warn", &level));
  EXPECT_EQ(level, Level::kWarning);
  EXPECT_TRUE(ParseLevel("CRITICAL", &level));
  EXPECT_EQ(level, Level::kError);
  EXPECT_TRUE(ParseLevel("warning", &level));
  EXPECT_FALSE(ParseLevel("loud", &level));
  EXPECT_EQ(level, Level::kWarning);
}

TEST(Log, ShowsNameLevelAndText) {
  log::SetUp("mtrun node0", Level::kInfo);
  testing::internal::CaptureStderr();
  Info("formed with ", 3, " nodes");
  Debug("not shown");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("mtrun node0 I formed with 3 nodes\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("not shown"), std::string::npos);
}

TEST(Log, LinesCanGoToAnotherSink) {
  log::SetUp("mtrun", Level::kInfo);
  std::string seen;
  SetSink([&](std::string line) { seen += line; });
  testing::internal::CaptureStderr();
  Info("one");
  Debug("not shown");
  SetSink({});
  Info("two");
  EXPECT_EQ(seen.substr(seen.find("mtrun")), "mtrun I one\n");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.substr(text.find("mtrun")), "mtrun I two\n");
}

TEST(Log, BracesInTextAreNotAFormat) {
  testing::internal::CaptureStderr();
  Error("{\"message\": {}}");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("{\"message\": {}}"), std::string::npos);
}

}  // namespace
}  // namespace mtrun::log
