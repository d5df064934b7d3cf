#include "page/gate.h"

#include "base/json_text.h"
#include "base/value_or.h"
#include "page/request_parts.h"

namespace mtrun::page {
namespace {

constexpr char kTired[] = "too many wrong passwords; try again in a minute";

std::string TokenOf(const web::Request& request) {
  return BearerIn(ValueOr(request.headers, "authorization"));
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

web::Response JsonResponse(const nlohmann::json& json, int status) {
  return {.status = status, .content_type = "application/json", .body = JsonLine(json)};
}

web::Response Refusal(int status, const std::string& text) { return JsonResponse({{"error", text}}, status); }

Gate::Pass Gate::Check(const web::Request& request, Need need, TimePoint now) {
  if (!IsOurHost(ValueOr(request.headers, "host"), config_.names))
    return {Refusal(421, "this server has another name; open the page by its address")};
  if (need == Need::kNothing) return {};
  auto session = sessions_.Find(TokenOf(request), now);
  if (need == Need::kViewer) {
    if (session) return {{}, std::move(session)};
    const auto password = BasicPasswordIn(ValueOr(request.headers, "authorization"));
    if (!password) return {Refusal(401, "log in first")};
    bool tired = false;
    if (TryPassword(request, *password, now, &tired)) return {};
    return {tired ? Refusal(429, kTired) : Refusal(401, "the password is wrong")};
  }
  if (!session) return {Refusal(401, "log in first")};
  if (auto refusal = CheckOrigin(request)) return {std::move(refusal)};
  if (session->role() != Role::kOperator)
    return {Refusal(403, "a viewer may not do this: log in with the operator's password")};
  return {{}, std::move(session)};
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
  const std::string token = config_.random();
  sessions_.Begin(token, *role, now);
  return JsonResponse({{"role", NameOf(*role)}, {"token", token}});
}

web::Response Gate::LogOut(const web::Request& request, TimePoint now) {
  if (Pass pass = Check(request, Need::kNothing, now); pass.refusal) return *std::move(pass.refusal);
  if (auto refusal = CheckOrigin(request)) return *std::move(refusal);
  sessions_.End(TokenOf(request));
  return {.status = 204};
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
  if (IsOwnOrigin(ValueOr(request.headers, "origin"), ValueOr(request.headers, "host"), config_.encrypted))
    return std::nullopt;
  return Refusal(403, "the request was sent by another page");
}

}  // namespace mtrun::page
