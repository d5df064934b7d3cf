// The live page of a real job (--http), in a browser and without one.
#include <signal.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "base/clock.h"
#include "base/posix.h"
#include "page/passwords.h"
#include "tests/e2e/cluster.h"
#include "tests/support/browser.h"
#include "tests/support/tcp_client.h"

namespace mtrun::e2e {
namespace {

using page::PasswordOf;
using page::Role;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

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
  /// Polls until the answer matches.
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
  /// Polls until `text` is in the answer.
  testing::AssertionResult Shows(const std::string& path, const char* text) const {
    return Shows(path, HasSubstr(text));
  }

  const int port_ = support::FreePort();
};

TEST_F(PageTest, SingleNodeHasAPage) {
  if (!HavePython()) GTEST_SKIP() << "no python3 here";
  Program mtrun(Command(Words({"--standalone", "--nproc_per_node", "2", "--http",
                               absl::StrCat("127.0.0.1:", port_), "--log_dir", folder_.File("logs")},
                              SteppingWorker())),
                Environment());
  ASSERT_TRUE(mtrun.WaitForLine("the page is at http://127.0.0.1:", kSoon)) << mtrun.Text();
  EXPECT_TRUE(Shows("/api/state", "\"data_wait_s\":0.004")) << mtrun.Text();
  EXPECT_TRUE(Shows("/api/state", ContainsRegex("\"learning_rate\":0.05,\"left_s\":null,\"loss\":[0-2]")))
      << mtrun.Text();
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

TEST_F(PageTest, PythonPackageWorkersReportTheirStepTimes) {
  if (!HavePython()) GTEST_SKIP() << "no python3 here";
  Program mtrun(Command({"--standalone", "--nproc_per_node", "3", "--http", absl::StrCat("127.0.0.1:", port_),
                         "--no_python", "python3", support::TestFile("support/toys/joined.py")}),
                Environment());
  ASSERT_TRUE(mtrun.WaitForLine("the page is at http://127.0.0.1:", kSoon)) << mtrun.Text();
  // Rank 1 has waited for no other rank, so it is the slowest.
  EXPECT_TRUE(
      Shows("/api/state", ContainsRegex(R"("stragglers":.."node":"[^"]*","own_step_s":[0-9.]*,"rank":1,)")))
      << mtrun.Text();
  EXPECT_TRUE(Shows("/api/state", "\"data_wait_s\":0.0"));
  EXPECT_TRUE(Shows("/api/state", ContainsRegex("\"samples_per_s\":[1-9]")));
  kill(mtrun.pid(), SIGTERM);
  EXPECT_EQ(mtrun.Wait(), 143) << mtrun.Text();
}

TEST_F(PageTest, EndedJobIsStillShownByItsService) {
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

TEST_F(PageTest, JobThatAllNodesLeftIsStillShown) {
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

TEST_F(PageTest, CommandPrintsThePasswords) {
  Program mtrun(Command({"--http_passwords"}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0);
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr(PasswordOf(Role::kViewer, support::kToken)),
                                  HasSubstr(PasswordOf(Role::kOperator, support::kToken))));
}

class LongPageTest : public NetworkTest {
 protected:
  /// Runs a driver on node 0, with the page's address and `args`.
  std::unique_ptr<Program> Drive(const std::string& script, const std::vector<std::string>& args) const {
    return std::make_unique<Program>(
        network_->On(0, Words({support::BrowserPython(), support::TestFile("e2e/" + script),
                               absl::StrCat("https://", Page(), "/")},
                              args)),
        Environment());
  }
  std::string Page() const { return network_->Address(0) + ":8443"; }
};

TEST_F(LongPageTest, BrowserShowsAJobWhileItsNodesAreKilled) {
  const std::vector<std::string> worker = Words({"--max_restarts", "3"}, SteppingWorker());
  toy_ = Words({"--http", Page()}, worker);
  auto first = Start(0, "1:3", "", "20");
  ASSERT_TRUE(first->WaitForLine("SHA-256 fingerprint of the page's certificate: ", kSoon)) << first->Text();
  toy_ = worker;
  auto second = Start(1, "1:3", "", "20"), third = Start(2, "1:3", "", "20");
  ASSERT_TRUE(first->WaitForLine("rank 0 of 3", kSoon)) << first->Text();
  const auto driver = Drive("page_driver.py", {PasswordOf(Role::kViewer, support::kToken),
                                               PasswordOf(Role::kOperator, support::kToken),
                                               absl::StrCat(AgentOf(*third)), folder_.path()});
  const auto status = driver->Wait(Seconds(300));
  const std::string text = driver->Text();
  if (status != support::kNoBrowser) {
    EXPECT_EQ(status, 0) << text << first->Text();
    EXPECT_TRUE(second->WaitForLine("leaves", Seconds(0)) || second->Wait().has_value()) << second->Text();
    EXPECT_TRUE(first->Wait(kSoon).has_value()) << first->Text();
  }
  for (auto* node : {first.get(), second.get(), third.get()}) kill(node->pid(), SIGTERM);
  if (status == support::kNoBrowser) GTEST_SKIP() << support::WhyNoBrowser(text);
  support::KeepPictures(folder_.path());
}

TEST_F(LongPageTest, OperatorEvictsADisconnectedNodeAndStopsTheJob) {
  toy_ = SteppingWorker();
  Program service(network_->On(0, {support::BinaryFolder() + "/mtrdzv", "--insecure", "--host",
                                   network_->Address(0), "--port", "29400", "--http", Page()}),
                  Environment());
  ASSERT_TRUE(service.WaitForLine("SHA-256 fingerprint of the page's certificate: ", kSoon))
      << service.Text();
  const auto member = Start(1, "1:1", ",fence_timeout=never");
  ASSERT_TRUE(member->WaitForLine("rank 0 of 1", kSoon)) << member->Text();
  const auto spare = Start(2, "1:1", ",fence_timeout=never");
  ASSERT_TRUE(spare->WaitForLine("spare: ", kSoon)) << spare->Text();
  const auto driver = Drive("page_evict_driver.py", {PasswordOf(Role::kOperator, support::kToken)});
  if (!driver->WaitForLine("one runs, one waits")) {
    if (driver->Wait() == support::kNoBrowser) GTEST_SKIP() << support::WhyNoBrowser(driver->Text());
    FAIL() << driver->Text();
  }

  ASSERT_TRUE(network_->SetLink(1, false).ok());
  EXPECT_TRUE(driver->WaitForLine("evicted by button")) << driver->Text() << spare->Text();
  ASSERT_TRUE(network_->SetLink(1, true).ok());
  EXPECT_EQ(driver->Wait(Seconds(120)), 0) << driver->Text();
  for (const auto& node : {member.get(), spare.get()}) EXPECT_EQ(node->Wait(), 143) << node->Text();
  service.Signal(SIGTERM);
  EXPECT_EQ(service.Wait(), 0) << service.Text();
}

}  // namespace
}  // namespace mtrun::e2e
