#include "page/gate.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/token.h"

namespace mtrun::page {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using web::Request;
using web::Response;

constexpr TimePoint kGateNow{};

class GateTest : public testing::Test {
 protected:
  static Gate Make(bool encrypted) {
    return Gate({.token = support::kToken,
                 .encrypted = encrypted,
                 .port = 8080,
                 .names = {"node1"},
                 .random = [count = 0]() mutable { return absl::StrCat("random", ++count); }});
  }
  static Request Post(const std::string& body, const std::string& origin = "http://node1:8080") {
    return {.method = "POST",
            .path = "/login",
            .headers = {{"host", "node1:8080"}, {"origin", origin}},
            .body = body,
            .peer = "peer"};
  }
  static std::string Form(Role role) { return "password=" + PasswordOf(role, support::kToken); }
  /// Returns a request with the cookie of a new session.
  Request From(Role role) {
    const Response response = gate_.LogIn(Post(Form(role)), kGateNow);
    EXPECT_EQ(response.status, 204) << response.body;
    const std::string cookie = response.headers.at(0).second;
    Request request = Post("");
    request.headers["cookie"] = cookie.substr(0, cookie.find(';'));
    return request;
  }
  int StatusOf(const Request& request, Gate::Need need) {
    const Gate::Pass pass = gate_.Check(request, need, kGateNow);
    return pass.refusal ? pass.refusal->status : 200;
  }

  Gate gate_ = Make(false);
};

TEST_F(GateTest, NothingIsShownWithoutAPassword) {
  EXPECT_EQ(StatusOf(Post(""), Gate::Need::kNothing), 200);
  EXPECT_EQ(StatusOf(Post(""), Gate::Need::kViewer), 401);
  EXPECT_EQ(StatusOf(Post(""), Gate::Need::kOperator), 401);
  EXPECT_EQ(gate_.LogIn(Post("password=wrong"), kGateNow).status, 403);
  EXPECT_EQ(gate_.LogIn(Post(absl::StrCat("password=", support::kToken)), kGateNow).status, 403);
  EXPECT_EQ(gate_.LogIn(Post("user=a"), kGateNow).status, 400);
  EXPECT_EQ(gate_.LogIn(Post("password=%"), kGateNow).status, 400);
  Request guessed = Post("");
  guessed.headers["cookie"] = "mtrun_8080=random7";
  EXPECT_EQ(StatusOf(guessed, Gate::Need::kViewer), 401);
}

TEST_F(GateTest, ForeignHostsAreRefusedWithAnyCredentials) {
  Request request = From(Role::kOperator);
  request.headers["host"] = "rebound.example";
  request.headers["origin"] = "http://rebound.example";
  for (const auto need : {Gate::Need::kNothing, Gate::Need::kViewer, Gate::Need::kOperator})
    EXPECT_EQ(StatusOf(request, need), 421);
  Request login = Post(Form(Role::kViewer));
  login.headers["host"] = "rebound.example";
  EXPECT_EQ(gate_.LogIn(login, kGateNow).status, 421);
}

TEST_F(GateTest, CookieIsHiddenFromScriptsAndOtherSites) {
  const Response plain = gate_.LogIn(Post(Form(Role::kViewer)), kGateNow);
  EXPECT_EQ(plain.headers.at(0).second, "mtrun_8080=random1; Path=/; HttpOnly; SameSite=Strict");
  Gate encrypted = Make(true);
  const Response secure = encrypted.LogIn(Post(Form(Role::kViewer), "https://node1:8080"), kGateNow);
  EXPECT_EQ(secure.headers.at(0).second,
            "__Host-mtrun_8080=random1; Path=/; HttpOnly; SameSite=Strict; Secure");
  EXPECT_EQ(encrypted.LogIn(Post(Form(Role::kViewer), "http://node1:8080"), kGateNow).status, 403);
}

TEST_F(GateTest, AForgedPostIsRefused) {
  Request request = From(Role::kOperator);
  EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 403);  // without the page's mark
  const std::string csrf = gate_.Check(request, Gate::Need::kViewer, kGateNow).csrf;
  request.headers["x-csrf-token"] = csrf + "x";
  EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 403);
  request.headers["x-csrf-token"] = csrf;
  EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 200);
  for (const char* origin : {"", "null", "http://evil.example", "http://node1:8081", "https://node1:8080"}) {
    request.headers["origin"] = origin;
    EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 403) << origin;
  }
}

TEST_F(GateTest, AViewerChangesNothing) {
  Request request = From(Role::kViewer);
  const Gate::Pass pass = gate_.Check(request, Gate::Need::kViewer, kGateNow);
  EXPECT_EQ(pass.role, Role::kViewer);
  request.headers["x-csrf-token"] = pass.csrf;
  const Gate::Pass refused = gate_.Check(request, Gate::Need::kOperator, kGateNow);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->status, 403);
  EXPECT_THAT(refused.refusal->body, HasSubstr("operator's password"));
}

TEST_F(GateTest, LogInFromAnotherPageIsRefused) {
  EXPECT_EQ(gate_.LogIn(Post(Form(Role::kViewer), "http://evil.example"), kGateNow).status, 403);
  EXPECT_EQ(gate_.LogIn(Post(Form(Role::kViewer), ""), kGateNow).status, 403);
}

TEST_F(GateTest, ScrapersReadWithBasicCredentialsAndChangeNothing) {
  Request request{.headers = {{"host", "node1"}}, .peer = "scraper"};
  request.headers["authorization"] =
      "Basic " + absl::Base64Escape("prometheus:" + PasswordOf(Role::kOperator, support::kToken));
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 200);
  EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 401);
  request.headers["authorization"] = "Basic " + absl::Base64Escape("a:b");
  for (int i = 0; i < Attempts::kEach; ++i) EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 401);
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 429);
}

/// Guesses from the same address, behind a NAT or on loopback, must not lock out other users.
TEST_F(GateTest, GuessesAreThrottledAndARightPasswordStillPasses) {
  for (int i = 0; i < Attempts::kEach; ++i) EXPECT_EQ(gate_.LogIn(Post("password=x"), kGateNow).status, 403);
  EXPECT_EQ(gate_.LogIn(Post("password=x"), kGateNow).status, 429);
  EXPECT_EQ(gate_.LogIn(Post(Form(Role::kOperator)), kGateNow).status, 204);
  Request scraper{.headers = {{"host", "node1"}}, .peer = "peer"};
  scraper.headers["authorization"] =
      "Basic " + absl::Base64Escape("prometheus:" + PasswordOf(Role::kViewer, support::kToken));
  EXPECT_EQ(StatusOf(scraper, Gate::Need::kViewer), 200);
  EXPECT_EQ(gate_.LogIn(Post("password=x"), kGateNow).status, 429) << "that gives nothing back";
  EXPECT_EQ(gate_.LogIn(Post("password=x"), kGateNow + Attempts::kBackEach).status, 403);
}

TEST_F(GateTest, CookieIsInvalidAfterLogOut) {
  const Request request = From(Role::kViewer);
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 200);
  Request forged = request;
  forged.headers["origin"] = "http://evil.example";
  EXPECT_EQ(gate_.LogOut(forged, kGateNow).status, 403);
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 200);
  EXPECT_THAT(gate_.LogOut(request, kGateNow).headers.at(0).second, HasSubstr("Max-Age=0"));
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 401);
}

TEST(GuardedTest, PolicyForbidsOtherSources) {
  std::string headers;
  for (const auto& [name, value] : Guarded({}).headers) absl::StrAppend(&headers, name, ": ", value, "\n");
  EXPECT_THAT(headers,
              AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'self';"),
                    HasSubstr("frame-ancestors 'none'"), Not(HasSubstr("unsafe")),
                    HasSubstr("X-Content-Type-Options: nosniff"), HasSubstr("Cache-Control: no-store")));
}

}  // namespace
}  // namespace mtrun::page
