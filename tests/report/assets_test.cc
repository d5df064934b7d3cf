#include "report/assets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Assets, HaveTheExpectedContent) {
  EXPECT_THAT(std::string(ChartScript()), HasSubstr("mtCharts"));
  EXPECT_THAT(std::string(ReportScript()), HasSubstr("mtCharts.drawAll"));
  EXPECT_THAT(std::string(PageStyle()), HasSubstr("prefers-color-scheme: dark"));
}

TEST(Assets, LibraryKeepsItsNoticeAndCannotCloseItsElement) {
  if (ChartLibrary().empty()) GTEST_SKIP() << "built without Chart.js";
  EXPECT_THAT(std::string(ChartLibrary().substr(0, 300)), HasSubstr("MIT License"));
  for (const std::string_view script : {ChartLibrary(), ChartScript(), ReportScript()})
    EXPECT_THAT(std::string(script), Not(HasSubstr("</script")));
}

}  // namespace
}  // namespace mtrun::report
