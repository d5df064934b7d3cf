// Roles on the live page. Their passwords are derived from the cluster's token, so that the token itself is
// never typed into a browser. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mtrun::page {

enum class Role {
  kViewer,    // sees everything
  kOperator,  // may drain, evict, stop and dump stacks as well
};
const char* NameOf(Role role);

/// Returns "abcdef-ghijkl-mnopqr-stuvwx": 120 bits of HMAC-SHA256 over the role's name, in base 32 (RFC 4648,
/// lower case). Neither the other password nor the token can be derived from it.
std::string PasswordOf(Role role, std::string_view token);

/// Returns a password's role, ignoring white space around it. Takes the same time wherever it differs.
std::optional<Role> RoleOf(std::string_view password, std::string_view token);

/// Returns both passwords for people, one per line.
std::string PasswordTable(std::string_view token);

}  // namespace mtrun::page
