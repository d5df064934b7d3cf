// The live page of a real job (--http), in a browser and without one.
#include <signal.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "base/clock.h"
#include "base/posix.h"
#include "page/passwords.h"
#include "tests/e2e/cluster.h"
#include "tests/support/tcp_client.h"

namespace mtrun::e2e {
namespace {

using page::PasswordOf;
using page::Role;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int kSkipped = 77;  // page_driver.py

std::vector<std::string> SteppingWorker() {
  return {"--no_python", "python3", support::TestFile("support/toys/stepping.py")};
}

class PageTest : public LauncherTest {
 protected:
  static std::string Basic(Role role) {
    return "Authorization: Basic " + absl::Base64Escape("me:" + PasswordOf(role, support::kToken)) + "\r\n";
  }
  std::string Get(const std::string& path) const {
    return support::Ask(
        port_, absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", Basic(Role::kViewer), "\r\n"));
  }
  /// Asks until the answer is as wanted.
  testing::AssertionResult Shows(const std::string& path,
                                 const testing::Matcher<const std::string&>& wanted) const {
    std::string answer;
    const TimePoint end = MonotonicNow() + FromSeconds(kSoon.count());
    while (MonotonicNow() < end) {
      answer = Get(path);
      if (wanted.Matches(answer)) return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << answer;
  }
  /// Asks until `text` is in the answer.
  testing::AssertionResult Shows(const std::string& path, const char* text) const {
    return Shows(path, HasSubstr(text));
  }

  const int port_ = support::FreePort();
};

TEST_F(PageTest, OneNodeAloneHasAPageToo) {
  if (!HavePython()) GTEST_SKIP() << "no python3 here";
  Program mtrun(Command(Words({"--standalone", "--nproc_per_node", "2", "--http",
                               absl::StrCat("127.0.0.1:", port_), "--log_dir", folder_.File("logs")},
                              SteppingWorker())),
                Environment());
  ASSERT_TRUE(mtrun.WaitForLine("the page is at http://127.0.0.1:", kSoon)) << mtrun.Text();
  EXPECT_TRUE(Shows("/api/state", "\"data_wait_s\":0.004")) << mtrun.Text();
  EXPECT_TRUE(Shows("/api/state", ContainsRegex("\"learning_rate\":0.05,\"loss\":[0-2]"))) << mtrun.Text();
  EXPECT_TRUE(Shows("/metrics", "mtrun_worker_data_wait_seconds"));
  EXPECT_TRUE(Shows("/metrics", "mtrun_job_loss"));
  EXPECT_TRUE(Shows("/api/log?rank=1", "rank 1 of 2 says <script>"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("200 OK"));

  kill(mtrun.pid(), SIGUSR2);
  ASSERT_TRUE(mtrun.WaitForLine("the stacks of 2 workers are in ", kSoon)) << mtrun.Text();
  const std::string run = RunFolder("logs");
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run)) {
    if (!entry.path().filename().string().starts_with("rank_")) continue;
    ++files;
    EXPECT_THAT(support::ReadText(entry.path()), AllOf(HasSubstr("== process "), HasSubstr("stepping.py")));
  }
  EXPECT_EQ(files, 2);
  kill(mtrun.pid(), SIGTERM);
  EXPECT_EQ(mtrun.Wait(), 143) << mtrun.Text();
}

TEST_F(PageTest, WorkersByThePythonPackageTellWhereTheirStepsGo) {
  if (!HavePython()) GTEST_SKIP() << "no python3 here";
  Program mtrun(Command({"--standalone", "--nproc_per_node", "3", "--http", absl::StrCat("127.0.0.1:", port_),
                         "--no_python", "python3", support::TestFile("support/toys/joined.py")}),
                Environment());
  ASSERT_TRUE(mtrun.WaitForLine("the page is at http://127.0.0.1:", kSoon)) << mtrun.Text();
  // Rank 1 has waited for nobody, so it is the slowest.
  EXPECT_TRUE(
      Shows("/api/state", ContainsRegex(R"("stragglers":.."node":"[^"]*","own_step_s":[0-9.]*,"rank":1,)")))
      << mtrun.Text();
  EXPECT_TRUE(Shows("/api/state", "\"data_wait_s\":0.0"));
  EXPECT_TRUE(Shows("/api/state", ContainsRegex("\"samples_per_s\":[1-9]")));
  kill(mtrun.pid(), SIGTERM);
  EXPECT_EQ(mtrun.Wait(), 143) << mtrun.Text();
}

TEST_F(PageTest, AnEndedJobIsStillShownByItsService) {
  Program service({support::BinaryFolder() + "/mtrdzv", "--endpoint", endpoint_, "--http",
                   absl::StrCat("127.0.0.1:", port_)},
                  Environment());
  ASSERT_TRUE(service.WaitForLine("the page is at ", kSoon)) << service.Text();
  EXPECT_TRUE(Shows("/api/state", "\"jobs\":[]"));
  auto job = Agent("1", {Script("run.sh", "exit 3\n")});
  EXPECT_EQ(job->Wait(), 3) << job->Text();
  EXPECT_TRUE(Shows("/api/state", "\"phase\":\"ended\""));
  EXPECT_TRUE(Shows("/api/state", "job ended: "));
  kill(service.pid(), SIGTERM);
  EXPECT_EQ(service.Wait(), 0) << service.Text();
}

TEST_F(PageTest, AJobThatAllNodesHaveLeftIsStillShownToo) {
  Program service({support::BinaryFolder() + "/mtrdzv", "--endpoint", endpoint_, "--http",
                   absl::StrCat("127.0.0.1:", port_)},
                  Environment());
  ASSERT_TRUE(service.WaitForLine("the page is at ", kSoon)) << service.Text();
  auto job = Agent("1", {Script("run.sh", "sleep 600\n")});
  EXPECT_TRUE(Shows("/api/state", "\"phase\":\"running\"")) << job->Text();
  kill(job->pid(), SIGTERM);
  EXPECT_EQ(job->Wait(), 143) << job->Text();
  EXPECT_TRUE(Shows("/api/state", "\"phase\":\"ended\""));
  EXPECT_TRUE(Shows("/api/state", "its last node is gone"));
  kill(service.pid(), SIGTERM);
  EXPECT_EQ(service.Wait(), 0) << service.Text();
}

TEST_F(PageTest, PasswordsAreShownByACommand) {
  Program mtrun(Command({"--http_passwords"}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0);
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr(PasswordOf(Role::kViewer, support::kToken)),
                                  HasSubstr(PasswordOf(Role::kOperator, support::kToken))));
}

class LongPageTest : public NetworkTest {
 protected:
  LongPageTest() { toy_ = SteppingWorker(); }
};

TEST_F(LongPageTest, ABrowserSeesAJobWhileItsNodesAreKilled) {
  toy_ = Words({"--http", network_->Address(0) + ":8443"}, SteppingWorker());
  auto first = Start(0, "1:3", "", "20");
  ASSERT_TRUE(first->WaitForLine("SHA-256 fingerprint of the page's certificate: ", kSoon)) << first->Text();
  toy_ = SteppingWorker();
  auto second = Start(1, "1:3", "", "20"), third = Start(2, "1:3", "", "20");
  ASSERT_TRUE(first->WaitForLine("rank 0 of 3", kSoon)) << first->Text();
  const char* const python = getenv("MT_BROWSER_PYTHON");  // one with selenium
  Program driver(
      network_->On(0,
                   {python == nullptr ? "/usr/bin/python3" : python, support::TestFile("e2e/page_driver.py"),
                    absl::StrCat("https://", network_->Address(0), ":8443/"),
                    PasswordOf(Role::kViewer, support::kToken), PasswordOf(Role::kOperator, support::kToken),
                    absl::StrCat(AgentOf(*third)), folder_.path()}),
      Environment());
  const auto status = driver.Wait(Seconds(300));
  const std::string text = driver.Text();
  if (status != kSkipped) {
    EXPECT_EQ(status, 0) << text << first->Text();
    EXPECT_TRUE(second->WaitForLine("leaves", Seconds(0)) || second->Wait().has_value()) << second->Text();
    EXPECT_TRUE(first->Wait(kSoon).has_value()) << first->Text();
  }
  for (auto* node : {first.get(), second.get(), third.get()}) kill(node->pid(), SIGTERM);
  if (status == kSkipped) GTEST_SKIP() << text.substr(text.rfind("no "));
  const std::string metrics = folder_.File("metrics.txt");
  Program promtool(
      {"sh", "-c", "command -v promtool >/dev/null || exit 77; promtool check metrics < " + metrics},
      Environment());
  const auto checked = promtool.Wait();
  EXPECT_TRUE(checked == 0 || checked == kSkipped) << promtool.Text();
  const char* const kept = getenv("MT_KEEP_PICTURES");
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    if (kept == nullptr || entry.path().extension() != ".png") continue;
    std::filesystem::copy_file(entry.path(), kept / entry.path().filename(),
                               std::filesystem::copy_options::overwrite_existing);
  }
}

}  // namespace
}  // namespace mtrun::e2e
