// Who may do what on the live page: passwords that are derived from the cluster's token, so that nobody types
// the token itself into a browser. Pure.
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

/// "abcdef-ghijkl-mnopqr-stuvwx": 120 bits of HMAC-SHA256 over the role's name, in base 32 (RFC 4648, lower
/// case). From one neither the other nor the token can be had.
std::string PasswordOf(Role role, std::string_view token);

/// Whose password that is; white space around it does not count. Its time does not tell where it differs.
std::optional<Role> RoleOf(std::string_view password, std::string_view token);

/// For people: both, a line each.
std::string PasswordTable(std::string_view token);

}  // namespace mtrun::page
