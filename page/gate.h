// Whether a request may have what it asks for: host, origin, session, role. Decisions alone; time is an
// argument and random texts come from outside, so that tests decide both.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "page/sessions.h"
#include "web/message.h"

namespace mtrun::page {

struct GateConfig {
  std::string token;
  bool encrypted = false;
  int port = 0;                         // cookies do not know ports: its number stands in the cookie's name
  std::vector<std::string> names = {};  // of this host besides numbers and localhost, lower-case
  std::function<std::string()> random;  // 128 bits or more, as a token (RFC 9110)
};

class Gate {
 public:
  enum class Need {
    kNothing,   // what everyone on the network may know
    kViewer,    // to look, by the page's cookie or (scrapers) Basic credentials
    kOperator,  // to change something: by the page's cookie, from the page itself
  };
  explicit Gate(GateConfig config) : config_(std::move(config)) {}

  struct Pass {
    std::optional<web::Response> refusal = {};
    Role role = Role::kViewer;
    std::string csrf = {};
  };
  Pass Check(const web::Request& request, Need need, TimePoint now);

  /// POST with a form's field "password": 204 and a cookie, or why not.
  web::Response LogIn(const web::Request& request, TimePoint now);
  web::Response LogOut(const web::Request& request, TimePoint now);

 private:
  std::string CookieName() const;
  std::string CookieOf(const std::string& value, const char* more) const;
  std::optional<web::Response> CheckOrigin(const web::Request& request) const;
  std::optional<Role> TryPassword(const web::Request& request, const std::string& password, TimePoint now,
                                  bool* tired);

  const GateConfig config_;
  Sessions sessions_;
  Attempts attempts_;
};

/// With what keeps browsers from doing more with it than to show it (CSP and others).
web::Response Guarded(web::Response response);
/// One line of JSON {"error": text}.
web::Response Refusal(int status, const std::string& text);

}  // namespace mtrun::page
