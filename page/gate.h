// Decides whether a request is allowed: host, origin, session, role. Pure decisions; time is an argument and
// random texts are injected, for tests.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "page/sessions.h"
#include "web/message.h"

namespace mtrun::page {

struct GateConfig {
  std::string token;
  bool encrypted = false;
  std::vector<std::string> names = {};  // of this host besides numbers and localhost, in lower case
  std::function<std::string()> random;  // at least 128 bits, as a token (RFC 9110)
};

class Gate {
 public:
  enum class Need {
    kNothing,   // public to everyone on the network
    kViewer,    // read access, by a session's token or (scrapers) Basic credentials
    kOperator,  // changes, by an operator's token and from the page itself
  };
  explicit Gate(GateConfig config) : config_(std::move(config)) {}

  struct Pass {
    std::optional<web::Response> refusal = {};
    std::shared_ptr<const Session> session = {};  // null if the access needs none: public, or Basic
  };
  Pass Check(const web::Request& request, Need need, TimePoint now);

  /// Handles a POST with the form field "password": 200 with {"role", "token"}, or the reason of the refusal. A
  /// session's token is only ever in this answer. Clients send it as a header (Authorization: Bearer TOKEN):
  /// browsers would send a cookie to every port of the host.
  web::Response LogIn(const web::Request& request, TimePoint now);
  /// Ends the session of the request's token, if any.
  web::Response LogOut(const web::Request& request, TimePoint now);

 private:
  std::optional<web::Response> CheckOrigin(const web::Request& request) const;
  std::optional<Role> TryPassword(const web::Request& request, const std::string& password, TimePoint now,
                                  bool* tired);

  const GateConfig config_;
  Sessions sessions_;
  Attempts attempts_;
};

/// Adds headers that limit browsers to showing the response (CSP and others).
web::Response Guarded(web::Response response);
/// Returns one line of JSON.
web::Response JsonResponse(const nlohmann::json& json, int status = 200);

/// Returns the JSON {"error": text}.
web::Response Refusal(int status, const std::string& text);

}  // namespace mtrun::page
