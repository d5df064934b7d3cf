#include "page/passwords.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/string_view.h"

namespace mtrun::page {
namespace {

constexpr char kDigits[] = "abcdefghijklmnopqrstuvwxyz234567";
constexpr size_t kBytes = 15, kGroup = 6;

}  // namespace

const char* NameOf(Role role) { return role == Role::kViewer ? "viewer" : "operator"; }

std::string PasswordOf(Role role, std::string_view token) {
  const std::string bits =
      HmacSha256(token, absl::StrCat("mtrun live page, password 1: ", NameOf(role))).substr(0, kBytes);
  std::string text;
  uint32_t kept = 0;
  int count = 0;
  for (const char c : bits) {
    kept = kept << 8 | static_cast<unsigned char>(c);
    for (count += 8; count >= 5; count -= 5) {
      if (text.size() % (kGroup + 1) == kGroup) text += '-';
      text += kDigits[kept >> (count - 5) & 31];
    }
  }
  return text;
}

std::optional<Role> RoleOf(std::string_view password, std::string_view token) {
  const std::string text(absl::StripAsciiWhitespace(View(password)));
  const bool sees = ConstantTimeEqual(text, PasswordOf(Role::kViewer, token));
  const bool operates = ConstantTimeEqual(text, PasswordOf(Role::kOperator, token));
  if (operates) return Role::kOperator;
  return sees ? std::optional(Role::kViewer) : std::nullopt;
}

std::string PasswordTable(std::string_view token) {
  return absl::StrCat("viewer    ", PasswordOf(Role::kViewer, token), "   sees everything\n", "operator  ",
                      PasswordOf(Role::kOperator, token), "   may drain, evict, stop and dump stacks\n");
}

}  // namespace mtrun::page
