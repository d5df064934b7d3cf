// Parts of a request that a client wrote as it liked: cookies, forms, credentials, host and origin. Pure; any
// bytes are fine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtrun::page {

/// Of a form or query; what has more is none.
inline constexpr size_t kMostFields = 32;

/// The value of that cookie in a Cookie header (RFC 6265), the first where there are several; "" for none.
std::string CookieIn(std::string_view header, std::string_view name);

/// "a=1&b=x+y%21": fields by name, the last where one is repeated (application/x-www-form-urlencoded).
/// Nothing where a percent sign has no two hexadecimal digits behind it, or with too many fields.
std::optional<std::map<std::string, std::string>> ParseForm(std::string_view text);

/// The password in an Authorization header of kind Basic (RFC 7617), whatever the user's name; nothing for
/// another kind.
std::optional<std::string> BasicPasswordIn(std::string_view header);

/// "example:8080" without its port, lower-case; nothing where it is no host (RFC 9110, 7.2).
std::optional<std::string> HostIn(std::string_view header);

/// Whether a page at this Host is ours. A foreign site can lead its own name to this address (DNS rebinding),
/// but not a number, nor one of `names`, which are lower-case.
bool IsOurHost(std::string_view header, const std::vector<std::string>& names);

/// Whether the page that sends something is one of this server's own: its Origin is where it is sent to.
bool IsOwnOrigin(std::string_view origin, std::string_view host, bool encrypted);

}  // namespace mtrun::page
