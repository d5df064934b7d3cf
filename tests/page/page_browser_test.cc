// The page in a browser: with a job from a stub (tests/page/crowd_driver.py), and beside a page at another port.
// With a real job: tests/e2e/launcher_page_test.cc.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "page/page.h"
#include "page/passwords.h"
#include "tests/support/browser.h"
#include "tests/support/port.h"
#include "tests/support/program.h"
#include "tests/support/token.h"

namespace mtrun::page {
namespace {

TEST(PageBrowser, ShowsOneThousandNodes) {
  const support::TemporaryFolder folder;
  support::Program driver(
      {support::BrowserPython(), support::TestFile("page/crowd_driver.py"), folder.path()});
  const auto status = driver.Wait(support::Seconds(300));
  if (status == support::kNoBrowser) GTEST_SKIP() << support::WhyNoBrowser(driver.Text());
  EXPECT_EQ(status, 0) << driver.Text();
  support::KeepPictures(folder.path());
}

TEST(PageBrowser, PageAtAnotherPortOfTheHostGetsNoRight) {
  const auto page = Page::Start({.listen = "127.0.0.1:0",
                                 .endpoints = {absl::StrCat("127.0.0.1:", support::FreePort())},
                                 .insecure = true,
                                 .page_token = support::kToken});
  ASSERT_TRUE(page.ok()) << page.status();
  support::Program driver({support::BrowserPython(), support::TestFile("page/neighbour_driver.py"),
                           absl::StrCat("http://127.0.0.1:", (*page)->port(), "/"),
                           PasswordOf(Role::kOperator, support::kToken)});
  const auto status = driver.Wait(support::Seconds(100));
  if (status == support::kNoBrowser) GTEST_SKIP() << support::WhyNoBrowser(driver.Text());
  EXPECT_EQ(status, 0) << driver.Text();
}

}  // namespace
}  // namespace mtrun::page
