#include "page/page.h"

#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "page/passwords.h"
#include "tests/support/port.h"
#include "tests/support/silent_server.h"
#include "tests/support/tcp_client.h"
#include "tests/support/token.h"

namespace mtrun::page {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

class PageTest : public testing::Test {
 protected:
  PageTest() {
    PageOptions options{.listen = "127.0.0.1:0",
                        .endpoints = {absl::StrCat("127.0.0.1:", support::FreePort())},
                        .insecure = true,
                        .page_token = support::kToken};
    auto page = Page::Start(options);
    EXPECT_TRUE(page.ok()) << page.status();
    page_ = *std::move(page);
  }
  std::string Get(const std::string& path, const std::string& headers = "Host: localhost\r\n") const {
    return support::Ask(page_->port(), absl::StrCat("GET ", path, " HTTP/1.1\r\n", headers, "\r\n"));
  }
  std::string LogIn(Role role) const {
    const std::string body = "password=" + PasswordOf(role, support::kToken);
    return support::Ask(page_->port(),
                        absl::StrCat("POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
                                     "Content-Length: ",
                                     body.size(), "\r\n\r\n", body));
  }
  /// Returns the headers of a logged-in client.
  std::string Cookie(Role role) const {
    const std::string answer = LogIn(role);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 204 "));
    const size_t at = answer.find("Set-Cookie: ") + 12;
    return absl::StrCat("Host: localhost\r\nCookie: ", answer.substr(at, answer.find(';', at) - at), "\r\n");
  }

  std::unique_ptr<Page> page_;
};

TEST_F(PageTest, StaticFilesContainNoSecretAndHaveSecurityHeaders) {
  for (const char* path : {"/", "/page.css", "/page.js", "/parts.js", "/chart.js", "/icon.svg"})
    EXPECT_THAT(Get(path), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("script-src 'self'"))) << path;
  EXPECT_THAT(Get("/", "Host: evil.example\r\n"), StartsWith("HTTP/1.1 421"));
}

TEST_F(PageTest, ValuesRequireALogIn) {
  for (const char* path : {"/api/state", "/api/live", "/api/log?rank=0", "/metrics"})
    EXPECT_THAT(Get(path), StartsWith("HTTP/1.1 401 ")) << path;
  EXPECT_THAT(Get("/api/session"), HasSubstr("{\"role\":null}"));
  const std::string headers = Cookie(Role::kViewer);
  EXPECT_THAT(Get("/api/session", headers), HasSubstr("\"role\":\"viewer\""));
  EXPECT_THAT(Get("/api/state", headers), HasSubstr("\"answers\":false"));
  EXPECT_THAT(Get("/metrics", headers), HasSubstr("mtrun_up 0\n"));
}

TEST_F(PageTest, ProbesTellOnlyWhetherItIsAlive) {
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503 "));
}

/// A service that accepts connections and is silent: each probe takes seconds.
class SilentPageTest : public PageTest {
 protected:
  SilentPageTest() { page_->SetEndpoints({silent_.endpoint()}); }
  static bool IsOpen(const support::TcpClient& client) {
    char bytes[4096];
    ssize_t size = 1;
    while (size > 0) size = recv(client.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    return size < 0 && errno == EAGAIN;
  }
  const support::SilentServer silent_;
};

TEST_F(SilentPageTest, ProbesFromOneAddressDoNotBlockOthers) {
  const support::TcpClient live(page_->port());
  live.Send(absl::StrCat("GET /api/live HTTP/1.1\r\n", Cookie(Role::kViewer), "\r\n"));
  ASSERT_TRUE(live.Hears(support::kPatience));
  std::vector<std::unique_ptr<support::TcpClient>> probes;
  for (int i = 0; i < 200; ++i) {
    probes.push_back(std::make_unique<support::TcpClient>(page_->port(), "127.0.0.2"));
    probes.back()->Send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(IsOpen(live)) << "it was thrown out";
  for (const auto& probe : probes) EXPECT_THAT(probe->ReadAll(), AnyOf("", StartsWith("HTTP/1.1 503 ")));
}

TEST(PageStartTest, ErrorNamesAnUnusableAddress) {
  PageOptions options{.listen = "nowhere.invalid:1", .insecure = true, .page_token = support::kToken};
  EXPECT_THAT(Page::Start(options).status().message(), HasSubstr("does not resolve to an address"));
  options.listen = "127.0.0.1:x";
  EXPECT_THAT(Page::Start(options).status().message(), HasSubstr("--http: "));
}

}  // namespace
}  // namespace mtrun::page
