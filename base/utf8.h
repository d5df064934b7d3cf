// Checks and escapes untrusted text as UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mtrun {

/// Returns the length in bytes (1 to 4) of the character at `at`; 0 if it is not valid UTF-8.
size_t CharacterLength(std::string_view text, size_t at);
/// Returns whether the text is UTF-8 without control characters, so that a terminal can show it unchanged.
bool IsPlainText(std::string_view text);
/// Makes a text safe for a terminal: invalid bytes and control characters are escaped as in C, "\n" and
/// "\x1b".
std::string AsPlainText(std::string_view text);

}  // namespace mtrun
