// Parses untrusted parts of a request: forms, credentials, host, origin. Pure; accepts any bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtrun::page {

/// Maximum fields of a form or query; more are an error.
inline constexpr size_t kMaxFields = 32;

/// Parses "a=1&b=x+y%21" (application/x-www-form-urlencoded); a repeated field's last value counts. Nothing
/// if a percent sign is not followed by two hexadecimal digits, or if there are too many fields.
std::optional<std::map<std::string, std::string>> ParseForm(std::string_view text);

/// Returns the password of an Authorization header of type Basic (RFC 7617), for any user name; nothing for
/// other types.
std::optional<std::string> BasicPasswordIn(std::string_view header);

/// Returns the token of an Authorization header of type Bearer (RFC 6750); "" for other types.
std::string BearerIn(std::string_view header);

/// Returns "example:8080" in lower case without its port; nothing if it is not a host (RFC 9110, 7.2).
std::optional<std::string> HostIn(std::string_view header);

/// Returns whether a Host header names this server: a number or one of `names` (lower case). A foreign site
/// can point its own name at this address (DNS rebinding), but none of these.
bool IsOurHost(std::string_view header, const std::vector<std::string>& names);

/// Returns whether a request comes from this server's own page: its Origin must match its Host.
bool IsOwnOrigin(std::string_view origin, std::string_view host, bool encrypted);

}  // namespace mtrun::page
