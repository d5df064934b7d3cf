#include "page/page.h"

#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
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
using testing::Not;
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
  std::string Post(const std::string& path, const std::string& headers, const std::string& body) const {
    return support::Ask(page_->port(), absl::StrCat("POST ", path, " HTTP/1.1\r\n", headers,
                                                    "Content-Length: ", body.size(), "\r\n\r\n", body));
  }
  std::string LogIn(Role role) const {
    return Post("/login", kOwn, "password=" + PasswordOf(role, support::kToken));
  }
  /// Returns the token of a new session.
  std::string Token(Role role) const {
    const std::string answer = LogIn(role);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    const auto body = nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n")), nullptr, false);
    return body.is_object() ? body.value("token", "") : "";
  }
  /// Returns the headers of a logged-in client.
  static std::string Shown(const std::string& token) {
    return absl::StrCat("Host: localhost\r\nAuthorization: Bearer ", token, "\r\n");
  }
  /// Opens a stream of states and waits for its first bytes.
  std::unique_ptr<support::TcpClient> Live(const std::string& headers) const {
    auto live = std::make_unique<support::TcpClient>(page_->port());
    live->Send(absl::StrCat("GET /api/live HTTP/1.1\r\n", headers, "\r\n"));
    EXPECT_TRUE(live->Hears(support::kPatience));
    return live;
  }
  /// Discards what has arrived.
  static bool IsOpen(const support::TcpClient& client) {
    char bytes[4096];
    ssize_t size = 1;
    while (size > 0) size = recv(client.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    return size < 0 && errno == EAGAIN;
  }

  static constexpr char kOwn[] = "Host: localhost\r\nOrigin: http://localhost\r\n";

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
  const std::string headers = Shown(Token(Role::kViewer));
  EXPECT_THAT(Get("/api/state", headers), HasSubstr("\"answers\":false"));
  EXPECT_THAT(Get("/metrics", headers), HasSubstr("mtrun_up 0\n"));
}

/// Browsers send a host's cookies to all its ports, so a cookie would give the session to other users' servers.
TEST_F(PageTest, CookieIsNeitherSetNorAccepted) {
  EXPECT_THAT(LogIn(Role::kOperator), Not(HasSubstr("Cookie")));
  const std::string token = Token(Role::kOperator);
  const std::string cookie = absl::StrCat("Cookie: mtrun_0=", token, "; session=", token, "\r\n");
  for (const char* path : {"/api/state", "/api/live", "/api/log?rank=0", "/metrics"})
    EXPECT_THAT(Get(path, absl::StrCat(kOwn, cookie)), StartsWith("HTTP/1.1 401 ")) << path;
  for (const char* path : {"/api/drain", "/api/evict", "/api/stop", "/api/stacks"})
    EXPECT_THAT(Post(path, absl::StrCat(kOwn, cookie), "{}"), StartsWith("HTTP/1.1 401 ")) << path;
}

TEST_F(PageTest, OnlyAnOperatorOnThePageItselfActs) {
  const std::string headers = Shown(Token(Role::kOperator));
  for (const char* origin :
       {"", "Origin: null\r\n", "Origin: http://localhost:8081\r\n", "Origin: https://localhost\r\n"})
    EXPECT_THAT(Post("/api/stop", headers + origin, "{}"), StartsWith("HTTP/1.1 403 ")) << origin;
  const std::string own = "Origin: http://localhost\r\n";
  EXPECT_THAT(Post("/api/stop", Shown(Token(Role::kViewer)) + own, "{}"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Post("/api/stop", headers + own, "no JSON"), StartsWith("HTTP/1.1 400 ")) << "admitted";
}

TEST_F(PageTest, LiveStreamEndsWithItsSession) {
  const std::string token = Token(Role::kViewer);
  const auto live = Live(Shown(token)), other = Live(Shown(Token(Role::kViewer)));
  EXPECT_THAT(Post("/logout", absl::StrCat(kOwn, "Authorization: Bearer ", token, "\r\n"), ""),
              StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(live->ReadAll(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(IsOpen(*other)) << "another session's stream has ended";
  EXPECT_THAT(Get("/api/live", Shown(token)), StartsWith("HTTP/1.1 401 "));
}

/// Whether or not their requests are complete.
TEST_F(PageTest, ConnectionsWithoutALogInDoNotEvictALiveStream) {
  const std::string password = "me:" + PasswordOf(Role::kViewer, support::kToken);
  const auto live =
      Live(absl::StrCat("Host: localhost\r\nAuthorization: Basic ", absl::Base64Escape(password), "\r\n"));
  std::vector<std::unique_ptr<support::TcpClient>> crowd;
  for (int i = 0; i < 300; ++i) {
    crowd.push_back(std::make_unique<support::TcpClient>(page_->port()));
    crowd.back()->Send(i % 3 == 0 ? "GET / HTTP/1.1\r\n"
                                  : "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  for (size_t i = 0; i < crowd.size(); i += 3) crowd[i]->Send("Host: localhost\r\n\r\n");
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(IsOpen(*live)) << "it was evicted";
}

TEST_F(PageTest, ProbesTellOnlyWhetherItIsAlive) {
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503 "));
}

/// A service that accepts connections and is silent: each probe takes seconds.
class SilentPageTest : public PageTest {
 protected:
  SilentPageTest() { page_->SetEndpoints({silent_.endpoint()}); }
  const support::SilentServer silent_;
};

TEST_F(SilentPageTest, ProbesFromOneAddressDoNotBlockOthers) {
  const auto live = Live(Shown(Token(Role::kViewer)));
  std::vector<std::unique_ptr<support::TcpClient>> probes;
  for (int i = 0; i < 200; ++i) {
    probes.push_back(std::make_unique<support::TcpClient>(page_->port(), "127.0.0.2"));
    probes.back()->Send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(IsOpen(*live)) << "it was thrown out";
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
