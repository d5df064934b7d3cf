#include "page/gate.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/token.h"

namespace mtrun::page {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using web::Request;
using web::Response;

constexpr TimePoint kGateNow{};

class GateTest : public testing::Test {
 protected:
  static Gate Make(bool encrypted) {
    return Gate({.token = support::kToken,
                 .encrypted = encrypted,
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
  /// Returns a request with the token of a new session.
  Request From(Role role) {
    const Response response = gate_.LogIn(Post(Form(role)), kGateNow);
    EXPECT_EQ(response.status, 200) << response.body;
    Request request = Post("");
    request.headers["authorization"] =
        "Bearer " + nlohmann::json::parse(response.body).at("token").get<std::string>();
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
  guessed.headers["authorization"] = "Bearer random7";
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
  EXPECT_EQ(gate_.LogOut(request, kGateNow).status, 421);
}

TEST_F(GateTest, LogInGivesATokenAndNoCookie) {
  const Response plain = gate_.LogIn(Post(Form(Role::kViewer)), kGateNow);
  EXPECT_EQ(plain.body, "{\"role\":\"viewer\",\"token\":\"random1\"}\n");
  EXPECT_THAT(plain.headers, IsEmpty());
  Gate encrypted = Make(true);
  EXPECT_EQ(encrypted.LogIn(Post(Form(Role::kViewer), "https://node1:8080"), kGateNow).status, 200);
  EXPECT_EQ(encrypted.LogIn(Post(Form(Role::kViewer), "http://node1:8080"), kGateNow).status, 403);
}

/// Browsers send a host's cookies to all its ports, which other users may own.
TEST_F(GateTest, CookieGivesNoAccess) {
  const Request operates = From(Role::kOperator);
  const std::string token = operates.headers.at("authorization").substr(7);
  for (const char* name : {"mtrun_8080", "__Host-mtrun_8080", "session", "token"}) {
    Request request = Post("");
    request.headers["cookie"] = absl::StrCat(name, "=", token);
    EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 401) << name;
    EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 401) << name;
  }
}

TEST_F(GateTest, AForgedPostIsRefused) {
  Request request = From(Role::kOperator);
  EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 200);
  for (const char* origin : {"", "null", "http://evil.example", "http://node1:8081", "https://node1:8080"}) {
    request.headers["origin"] = origin;
    EXPECT_EQ(StatusOf(request, Gate::Need::kOperator), 403) << origin;
  }
}

TEST_F(GateTest, AViewerChangesNothing) {
  const Request request = From(Role::kViewer);
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 200);
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
  EXPECT_EQ(gate_.LogIn(Post(Form(Role::kOperator)), kGateNow).status, 200);
  Request scraper{.headers = {{"host", "node1"}}, .peer = "peer"};
  scraper.headers["authorization"] =
      "Basic " + absl::Base64Escape("prometheus:" + PasswordOf(Role::kViewer, support::kToken));
  EXPECT_EQ(StatusOf(scraper, Gate::Need::kViewer), 200);
  EXPECT_EQ(gate_.LogIn(Post("password=x"), kGateNow).status, 429) << "that gives nothing back";
  EXPECT_EQ(gate_.LogIn(Post("password=x"), kGateNow + Attempts::kBackEach).status, 403);
}

TEST_F(GateTest, TokenIsInvalidAfterLogOut) {
  const Request request = From(Role::kViewer);
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 200);
  Request forged = request;
  forged.headers["origin"] = "http://evil.example";
  EXPECT_EQ(gate_.LogOut(forged, kGateNow).status, 403);
  EXPECT_EQ(StatusOf(request, Gate::Need::kViewer), 200);
  const auto session = gate_.Check(request, Gate::Need::kViewer, kGateNow).session;
  ASSERT_TRUE(session);
  EXPECT_FALSE(session->HasEnded(kGateNow));
  EXPECT_EQ(gate_.LogOut(request, kGateNow).status, 204);
  EXPECT_TRUE(session->HasEnded(kGateNow));
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
