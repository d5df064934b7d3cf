#include "datasets/images/png_profile.h"

#include <algorithm>

#include <zlib.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace mtrun::datasets {
namespace {

constexpr std::string_view kKeyword = "Raw profile type exif";
constexpr std::string_view kExifHead("Exif\0\0", 6);
constexpr size_t kMaxText = 1 << 18;  // an Exif block has at most 64 KiB

/// Decompresses at most kMaxText bytes; "" if that is not all.
std::string Inflated(std::string_view bytes) {
  std::string text(kMaxText, '\0');
  uLongf size = text.size();
  if (uncompress(reinterpret_cast<Bytef*>(text.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                 bytes.size()) != Z_OK)
    return "";
  text.resize(size);
  return text;
}

/// Returns what follows the next zero byte; "" if there is none.
std::string_view AfterZero(std::string_view bytes) {
  const size_t zero = bytes.find('\0');
  return zero == std::string_view::npos ? std::string_view() : bytes.substr(zero + 1);
}

/// Returns the text of a chunk with the keyword.
std::string TextOf(std::string_view chunk_name, std::string_view body) {
  if (body.substr(0, kKeyword.size()) != kKeyword ||
      body.substr(kKeyword.size(), 1) != std::string_view("\0", 1))
    return "";
  const std::string_view rest = body.substr(kKeyword.size() + 1);
  if (chunk_name == "tEXt") return std::string(rest);
  if (chunk_name == "zTXt") return Inflated(rest.substr(std::min<size_t>(1, rest.size())));
  if (chunk_name != "iTXt" || rest.size() < 2) return "";
  const std::string_view text = AfterZero(AfterZero(rest.substr(2)));  // after language and translation
  return rest[0] == 0 ? std::string(text) : Inflated(text);
}

}  // namespace

std::string ExifProfileOf(std::string_view chunk_name, std::string_view body) {
  const std::string text = TextOf(chunk_name, body);
  size_t at = 0;
  for (int line = 0; line < 3; ++line) {  // an empty one, the name, the length
    at = text.find('\n', at);
    if (at == std::string::npos) return "";
    ++at;
  }
  std::string digits;
  for (const char c : text.substr(at)) {
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) continue;
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return "";
    digits.push_back(c);
  }
  digits.resize(digits.size() / 2 * 2);
  std::string bytes = absl::HexStringToBytes(digits);
  if (bytes.substr(0, kExifHead.size()) == kExifHead) bytes.erase(0, kExifHead.size());
  return bytes;
}

}  // namespace mtrun::datasets
