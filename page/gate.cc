#include "page/gate.h"

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "nlohmann/json.hpp"
#include "page/request_parts.h"

namespace mtrun::page {
namespace {

constexpr char kTired[] = "too many wrong passwords; try again in a minute";

std::string HeaderOf(const web::Request& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

}  // namespace

web::Response Guarded(web::Response response) {
  response.headers.insert(
      response.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Referrer-Policy", "no-referrer"},
       {"Cross-Origin-Opener-Policy", "same-origin"},
       {"Cross-Origin-Resource-Policy", "same-origin"},
       {"Cache-Control", "no-store"}});
  return response;
}

web::Response Refusal(int status, const std::string& text) {
  return {
      .status = status,
      .content_type = "application/json",
      .body = nlohmann::json{{"error", text}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
              "\n"};
}

Gate::Pass Gate::Check(const web::Request& request, Need need, TimePoint now) {
  if (!IsOurHost(HeaderOf(request, "host"), config_.names))
    return {Refusal(421, "this server has another name; open the page by its address")};
  if (need == Need::kNothing) return {};
  const auto session = sessions_.Find(CookieIn(HeaderOf(request, "cookie"), CookieName()), now);
  if (need == Need::kViewer) {
    if (session) return {{}, session->role, session->csrf};
    const auto password = BasicPasswordIn(HeaderOf(request, "authorization"));
    if (!password) return {Refusal(401, "log in first")};
    bool tired = false;
    if (const auto role = TryPassword(request, *password, now, &tired)) return {{}, *role, ""};
    return {tired ? Refusal(429, kTired) : Refusal(401, "the password is wrong")};
  }
  if (!session) return {Refusal(401, "log in first")};
  if (auto refusal = CheckOrigin(request)) return {std::move(refusal)};
  if (!ConstantTimeEqual(HeaderOf(request, "x-csrf-token"), session->csrf))
    return {Refusal(403, "the request was not sent by the page; reload it")};
  if (session->role != Role::kOperator)
    return {Refusal(403, "a viewer may not do this: log in with the operator's password")};
  return {{}, session->role, session->csrf};
}

web::Response Gate::LogIn(const web::Request& request, TimePoint now) {
  if (Pass pass = Check(request, Need::kNothing, now); pass.refusal) return *std::move(pass.refusal);
  if (auto refusal = CheckOrigin(request)) return *std::move(refusal);
  const auto form = ParseForm(request.body);
  if (!form || !form->contains("password"))
    return Refusal(400, "expected a form with the field \"password\"");
  bool tired = false;
  const std::optional<Role> role = TryPassword(request, form->at("password"), now, &tired);
  if (tired) return Refusal(429, kTired);
  if (!role) return Refusal(403, "wrong password");
  const std::string cookie = config_.random();
  sessions_.Begin(cookie, config_.random(), *role, now);
  return {.status = 204, .headers = {{"Set-Cookie", CookieOf(cookie, "")}}};
}

web::Response Gate::LogOut(const web::Request& request, TimePoint now) {
  if (Pass pass = Check(request, Need::kNothing, now); pass.refusal) return *std::move(pass.refusal);
  if (auto refusal = CheckOrigin(request)) return *std::move(refusal);
  sessions_.End(CookieIn(HeaderOf(request, "cookie"), CookieName()));
  return {.status = 204, .headers = {{"Set-Cookie", CookieOf("", "; Max-Age=0")}}};
}

std::optional<Role> Gate::TryPassword(const web::Request& request, const std::string& password, TimePoint now,
                                      bool* tired) {
  // Guessing is hopeless (120 bits), so a correct password always passes. A client that shares an operator's
  // address, behind a NAT for example, must not lock the operator out.
  const std::optional<Role> role = RoleOf(password, config_.token);
  *tired = !role && !attempts_.Take(request.peer, now);
  return role;
}

std::optional<web::Response> Gate::CheckOrigin(const web::Request& request) const {
  if (IsOwnOrigin(HeaderOf(request, "origin"), HeaderOf(request, "host"), config_.encrypted))
    return std::nullopt;
  return Refusal(403, "the request was sent by another page");
}

std::string Gate::CookieName() const {
  return absl::StrCat(config_.encrypted ? "__Host-" : "", "mtrun_", config_.port);
}

std::string Gate::CookieOf(const std::string& value, const char* more) const {
  return absl::StrCat(CookieName(), "=", value, "; Path=/; HttpOnly; SameSite=Strict",
                      config_.encrypted ? "; Secure" : "", more);
}

}  // namespace mtrun::page
