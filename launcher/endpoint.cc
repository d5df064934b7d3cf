#include "launcher/endpoint.h"

#include <arpa/inet.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

absl::Status Wrong(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not HOST or HOST:PORT: ", why));
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view std_text) {
  const absl::string_view text(std_text.data(), std_text.size());
  absl::string_view host = text, port;
  bool has_port = false;
  if (absl::StartsWith(text, "[")) {
    const size_t close = text.find(']');
    if (close == absl::string_view::npos) return Wrong(text, "the bracket is never closed");
    host = text.substr(1, close - 1);
    const absl::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return Wrong(text, "only :PORT may follow the bracket");
    has_port = !rest.empty();
    port = rest.empty() ? rest : rest.substr(1);
  } else if (const size_t colon = text.find(':'); colon != absl::string_view::npos) {
    // Two colons without brackets can only be a bare IPv6 address.
    if (text.find(':', colon + 1) == absl::string_view::npos) {
      host = text.substr(0, colon);
      port = text.substr(colon + 1);
      has_port = true;
    }
  }
  if (host.empty()) return Wrong(text, "the host is missing");
  if (host.find_first_of(" /") != absl::string_view::npos)
    return Wrong(text, "a host has neither blanks nor slashes");
  Endpoint endpoint{.host = std::string(host)};
  if (has_port && (!absl::SimpleAtoi(port, &endpoint.port) || endpoint.port < 0 || endpoint.port > 65535)) {
    return Wrong(text, "the port is a number from 0 to 65535");
  }
  return endpoint;
}

std::string ToText(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? absl::StrCat("[", endpoint.host, "]:", endpoint.port)
            : absl::StrCat(endpoint.host, ":", endpoint.port);
}

bool IsLoopback(std::string_view host) {
  if (absl::EqualsIgnoreCase(View(host), "localhost")) return true;
  return host == "::1" || (host.starts_with("127.") && IsIpAddress(host));
}

bool IsIpAddress(std::string_view host) {
  unsigned char bytes[sizeof(in6_addr)];
  const std::string text(host);
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 || inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

}  // namespace mtrun::launcher
