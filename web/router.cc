#include "web/router.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace mtrun::web {

Router::Found Router::Find(std::string_view method, std::string_view path) const {
  const auto is_named = [&](const Route& route) { return route.path == path; };
  const bool named = std::any_of(routes_.begin(), routes_.end(), is_named);
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::vector<std::string> allowed;
  for (const Route& route : routes_) {
    if (route.path != (named ? path : kEveryPath)) continue;
    if (route.method == wanted) return {&route.handler, {}};
    allowed.push_back(route.method);
    if (route.method == "GET") allowed.emplace_back("HEAD");
  }
  if (allowed.empty()) return {nullptr, StatusResponse(404)};
  Response refusal = StatusResponse(405);
  refusal.headers.emplace_back("Allow", absl::StrJoin(allowed, ", "));
  return {nullptr, std::move(refusal)};
}

}  // namespace mtrun::web
