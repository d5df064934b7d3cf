// Debian's Prometheus scrapes a job as documented in docs/watch.md.
#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "nlohmann/json.hpp"
#include "page/passwords.h"
#include "tests/e2e/launcher.h"
#include "tests/support/tcp_client.h"

namespace mtrun::e2e {
namespace {

using nlohmann::json;

class LongPrometheusTest : public LauncherTest {
 protected:
  void SetUp() override {
    for (const std::string tool : {"prometheus", "promtool"}) {
      if (Program({"sh", "-c", "command -v " + tool}).Wait() != 0) GTEST_SKIP() << "no " << tool << " here";
    }
    if (!HavePython()) GTEST_SKIP() << "no python3 here";
  }

  /// Returns the document's configuration block, for this page and its password.
  std::string Configuration() const {
    const std::string text = support::ReadText(support::TestFile("../docs/watch.md")), fence = "```yaml\n";
    const size_t begin = text.find(fence + "scrape_configs"), end = text.find("```", begin + fence.size());
    EXPECT_NE(begin, std::string::npos) << "docs/watch.md";
    if (begin == std::string::npos) return "";
    const std::string password = folder_.File("viewer");
    support::WriteText(password, page::PasswordOf(page::Role::kViewer, support::kToken) + "\n");
    return "global: {scrape_interval: 1s}\n" +
           absl::StrReplaceAll(text.substr(begin + fence.size(), end - begin - fence.size()),
                               {{"/etc/prometheus/mtrun.viewer", password},
                                {"127.0.0.1:8080", absl::StrCat("127.0.0.1:", page_)}});
  }

  /// Expects promtool to accept the scraped text.
  void ExpectPromtoolIsContent() const {
    const std::string password =
        absl::Base64Escape("me:" + page::PasswordOf(page::Role::kViewer, support::kToken));
    const std::string answer =
        support::Ask(page_, absl::StrCat("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                                         "Authorization: Basic ", password, "\r\n\r\n"));
    const std::vector<std::string> parts = absl::StrSplit(answer, absl::MaxSplits("\r\n\r\n", 1));
    ASSERT_THAT(parts.back(), testing::HasSubstr("mtrun_job_world_size")) << answer;
    support::WriteText(folder_.File("metrics.txt"), parts.back());
    Program check({"sh", "-c", "promtool check metrics < " + folder_.File("metrics.txt")});
    EXPECT_EQ(check.Wait(), 0) << check.Text();
  }

  /// Returns the answer of Prometheus' HTTP interface, or null without an answer.
  json Api(const std::string& what) const {
    const std::string answer =
        support::Ask(prometheus_, absl::StrCat("GET /api/v1/", what, " HTTP/1.0\r\nHost: localhost\r\n\r\n"));
    const std::vector<std::string> parts = absl::StrSplit(answer, absl::MaxSplits("\r\n\r\n", 1));
    const json body = json::parse(parts.back(), nullptr, /*allow_exceptions=*/false);
    return body.is_object() && body.value("status", "") == "success" ? body["data"] : json();
  }
  /// Waits until the query gives this value; otherwise the message contains its actual value.
  testing::AssertionResult Gives(const std::string& query, const std::string& value) const {
    json data;
    for (const TimePoint end = MonotonicNow() + FromSeconds(kSoon.count()); MonotonicNow() < end;) {
      data = Api("query?query=" + query);
      if (data.is_object() && data["result"].size() == 1 && data["result"][0]["value"][1] == value)
        return testing::AssertionSuccess();
      usleep(100'000);  // another process's scrape gives us no event
    }
    return testing::AssertionFailure() << query << ": " << data;
  }

  const int page_ = support::FreePort(), prometheus_ = support::FreePort();
};

TEST_F(LongPrometheusTest, ScrapesAJobAsDocumented) {
  const auto mtrun = Agent("1", {"--nproc_per_node", "2", "--http", absl::StrCat("127.0.0.1:", page_),
                                 "--no_python", "python3", support::TestFile("support/toys/stepping.py")});
  ASSERT_TRUE(mtrun->WaitForLine("the page is at ", kSoon)) << mtrun->Text();
  const std::string file = folder_.File("prometheus.yml");
  support::WriteText(file, Configuration());
  Program promtool({"promtool", "check", "config", file});
  ASSERT_EQ(promtool.Wait(), 0) << promtool.Text();
  const std::string listen = absl::StrCat("127.0.0.1:", prometheus_);
  Program prometheus({"prometheus", "--config.file", file, "--storage.tsdb.path", folder_.File("tsdb"),
                      "--web.listen-address", listen, "--log.level", "info"},
                     Environment());
  ASSERT_TRUE(prometheus.WaitForLine("Server is ready to receive web requests", kSoon)) << prometheus.Text();

  EXPECT_TRUE(Gives("up", "1")) << mtrun->Text() << prometheus.Text();
  const json targets = Api("targets?state=active")["activeTargets"];
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0]["health"], "up") << targets;
  EXPECT_EQ(targets[0]["lastError"], "");
  EXPECT_TRUE(Gives("mtrun_up", "1"));
  EXPECT_TRUE(Gives("mtrun_job_world_size{job=\"job\"}", "2"));
  // A scraper counts as a watcher: the workers report their step times.
  EXPECT_TRUE(Gives("count(mtrun_worker_data_wait_seconds{job=\"job\"}==0.004)", "2"));
  EXPECT_TRUE(Gives("changes(mtrun_job_step[20s])%3Ebool%201", "1")) << "values move";
  ExpectPromtoolIsContent();

  prometheus.Signal(SIGTERM);
  EXPECT_EQ(prometheus.Wait(), 0) << prometheus.Text();
  mtrun->Signal(SIGTERM);
  EXPECT_EQ(mtrun->Wait(), 143) << mtrun->Text();
}

}  // namespace
}  // namespace mtrun::e2e
