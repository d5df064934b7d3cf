#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace mtrun {
namespace {

/// Encodes a character according to RFC 3629, section 3.
std::string Encode(uint32_t point) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto further = [&](int shift) { return byte(0x80 | (point >> shift & 0x3F)); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xC0 | point >> 6), further(0)};
  if (point < 0x10000) return {byte(0xE0 | point >> 12), further(6), further(0)};
  return {byte(0xF0 | point >> 18), further(12), further(6), further(0)};
}

TEST(Utf8Test, EveryCharacterHasItsLengthAndSurrogatesAreInvalid) {
  for (uint32_t point = 0; point <= 0x10FFFF; ++point) {
    const std::string text = Encode(point);
    const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    ASSERT_EQ(CharacterLength(text, 0), surrogate ? 0 : text.size()) << point;
    ASSERT_EQ(CharacterLength("x" + text + "y", 1), surrogate ? 0 : text.size()) << point;
    ASSERT_EQ(CharacterLength(text.substr(0, text.size() - 1), 0), 0u) << point << " cut short";
  }
  EXPECT_EQ(CharacterLength("x", 1), 0u);
}

TEST(Utf8Test, NumberOfValidShortSequencesMatchesUnicode) {
  size_t two = 0, three = 0;
  std::string text(3, '\0');
  for (uint32_t bytes = 0; bytes < 1u << 24; ++bytes) {
    for (size_t i = 0; i < 3; ++i) text[i] = static_cast<char>(bytes >> 8 * i);
    const size_t length = CharacterLength(text, 0);
    two += length == 2 && text[2] == 0 ? 1 : 0;
    three += length == 3 ? 1 : 0;
  }
  EXPECT_EQ(two, 0x800u - 0x80);
  EXPECT_EQ(three, 0x10000u - 0x800 - 0x800);
  EXPECT_EQ(CharacterLength("\xF4\x90\x80\x80", 0), 0u) << "beyond the last one";
  EXPECT_EQ(CharacterLength("\xF0\x8F\xBF\xBF", 0), 0u) << "longer than needed";
}

TEST(Utf8Test, PlainTextHasNoControlCharacters) {
  EXPECT_TRUE(IsPlainText(""));
  EXPECT_TRUE(IsPlainText("t\xC3\xA4st \xE5\xAE\x9E-7"));
  for (const char* text : {"a\nb", "\x1B[2J", "\x7F", "\xC2\x9B", "\xF6"})
    EXPECT_FALSE(IsPlainText(text)) << text;
}

TEST(Utf8Test, AsPlainTextEscapesOnlyControlCharacters) {
  const std::string plain = "t\xC3\xA4st \xE5\xAE\x9E-7\\";
  EXPECT_EQ(AsPlainText(plain), plain);
  EXPECT_EQ(AsPlainText("a\nb\x1B[2J\x7F"), "a\\nb\\x1b[2J\\x7f");
  EXPECT_EQ(AsPlainText("\xC2\x9B\xC3"), "\\xc2\\x9b\\xc3");
  EXPECT_EQ(AsPlainLines("a\n\tb\r\x1B[2J"), "a\n\tb\\r\\x1b[2J");
}

}  // namespace
}  // namespace mtrun
