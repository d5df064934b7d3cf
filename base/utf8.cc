#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"

namespace mtrun {
namespace {

/// Returns the length given by the first byte; 0 if it cannot begin a character.
size_t LengthSaid(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation byte, or an overlong form
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

/// The second byte reveals overlong forms, surrogates and values beyond U+10FFFF.
bool SecondFits(uint8_t first, uint8_t second) {
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

/// Returns the length of the character at `at`; 0 if it is invalid or a control character.
size_t PlainLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const size_t length = CharacterLength(text, at);
  if (length == 0 || byte(0) < 0x20 || byte(0) == 0x7F) return 0;
  return byte(0) == 0xC2 && byte(1) < 0xA0 ? 0 : length;  // terminals treat U+0080 to U+009F as controls too
}

std::string Escape(std::string_view text, std::string_view kept) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const size_t length = PlainLength(text, at);
    if (length == 0 && kept.find(text[at]) == std::string_view::npos) {
      plain += absl::CHexEscape({text.data() + at, 1});
    } else {
      plain += text.substr(at, std::max<size_t>(1, length));
    }
    at += std::max<size_t>(1, length);
  }
  return plain;
}

}  // namespace

size_t CharacterLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  if (at >= text.size()) return 0;
  const size_t length = LengthSaid(byte(0));
  if (length == 0 || length > text.size() - at) return 0;
  if (length > 1 && !SecondFits(byte(0), byte(1))) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    if ((length = CharacterLength(text, at)) == 0) return false;
  }
  return true;
}

bool IsPlainText(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = PlainLength(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string AsPlainText(std::string_view text) { return Escape(text, ""); }

std::string AsPlainLines(std::string_view text) { return Escape(text, "\n\t"); }

}  // namespace mtrun
