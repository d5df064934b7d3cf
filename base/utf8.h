// Text from outside as UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mtrun {

/// Bytes of the character that begins there, 1 to 4; 0 where none does: what follows is not UTF-8.
size_t CharacterLength(std::string_view text, size_t at);
/// UTF-8 without control characters, which a terminal may show as it is.
bool IsPlainText(std::string_view text);
/// The same text for a terminal: what is no character or a control character is written as in C, "\n" and
/// "\x1b".
std::string AsPlainText(std::string_view text);

}  // namespace mtrun
