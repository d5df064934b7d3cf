#include "base/log_level.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/log.h"

namespace mtrun::log {
namespace {

TEST(LogLevel, ComesFromTheEnvironment) {
  setenv("LOGLEVEL", "debug", 1);
  SetUpFromEnvironment("mtrun");
  EXPECT_TRUE(Shows(Level::kDebug));
  unsetenv("LOGLEVEL");
  SetUpFromEnvironment("mtrun");
  EXPECT_FALSE(Shows(Level::kDebug));
  EXPECT_TRUE(Shows(Level::kInfo));
}

TEST(LogLevel, UnknownLevelIsInfoWithAWarning) {
  setenv("LOGLEVEL", "loud", 1);
  testing::internal::CaptureStderr();
  SetUpFromEnvironment("mtrun");
  const std::string text = testing::internal::GetCapturedStderr();
  unsetenv("LOGLEVEL");
  EXPECT_NE(text.find("LOGLEVEL: \"loud\" is not allowed"), std::string::npos) << text;
  EXPECT_TRUE(Shows(Level::kInfo));
}

}  // namespace
}  // namespace mtrun::log
