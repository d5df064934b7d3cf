// The page in a browser with a job from a stub: tests/page/crowd_driver.py. With a real job:
// tests/e2e/launcher_page_test.cc.
#include <gtest/gtest.h>

#include "tests/support/browser.h"
#include "tests/support/program.h"

namespace mtrun::page {
namespace {

TEST(PageBrowser, DrawsOneThousandNodesIn200Milliseconds) {
  const support::TemporaryFolder folder;
  support::Program driver(
      {support::BrowserPython(), support::TestFile("page/crowd_driver.py"), folder.path()});
  const auto status = driver.Wait(support::Seconds(300));
  if (status == support::kNoBrowser) GTEST_SKIP() << support::WhyNoBrowser(driver.Text());
  EXPECT_EQ(status, 0) << driver.Text();
  support::KeepPictures(folder.path());
}

}  // namespace
}  // namespace mtrun::page
