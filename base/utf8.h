// Checks and escapes untrusted text as UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mtrun {

/// Returns the length in bytes (1 to 4) of the character at `at`; 0 if it is not valid UTF-8.
size_t CharacterLength(std::string_view text, size_t at);
bool IsUtf8(std::string_view text);
/// Returns whether the text is UTF-8 without control characters, so that a terminal can show it unchanged.
bool IsPlainText(std::string_view text);
/// Makes a text safe for a terminal: invalid bytes and control characters are escaped as in C, "\n" and
/// "\x1b".
std::string AsPlainText(std::string_view text);
/// The same for a text of several lines: line feeds and tabs stay.
std::string AsPlainLines(std::string_view text);

}  // namespace mtrun
