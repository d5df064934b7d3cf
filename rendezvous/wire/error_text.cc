#include "rendezvous/wire/error_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace mtrun::rendezvous {

bool IsTail(absl::string_view message) { return absl::StartsWith(message, kTailHeading); }

absl::string_view ErrorLine(absl::string_view message) {
  if (IsTail(message)) message.remove_prefix(message.rfind('\n') + 1);
  return message.substr(0, message.find('\n'));
}

std::string WithoutNumbers(absl::string_view text) {
  std::string made;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      made += c;
    } else if (made.empty() || made.back() != '#') {
      made += '#';
    }
  }
  return made;
}

}  // namespace mtrun::rendezvous
