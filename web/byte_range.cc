#include "web/byte_range.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/string_view.h"

namespace mtrun::web {
namespace {

constexpr std::string_view kUnit = "bytes=";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && absl::ascii_isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && absl::ascii_isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

/// Parses digits only; clamps to the largest int64.
std::optional<int64_t> Number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const int64_t digit = c - '0';
    number = number > (kMost - digit) / 10 ? kMost : number * 10 + digit;
  }
  return number;
}

ByteRange Part(int64_t first, int64_t last, int64_t size) {
  if (first >= size) return {ByteRange::Kind::kImpossible, 0, 0};
  return {ByteRange::Kind::kPart, first, std::min(last, size - 1) - first + 1};
}

}  // namespace

ByteRange SelectRange(std::string_view header, int64_t size) {
  const ByteRange whole{ByteRange::Kind::kWhole, 0, size};
  header = Trimmed(header);
  if (header.size() < kUnit.size() ||
      !absl::EqualsIgnoreCase(View(header.substr(0, kUnit.size())), View(kUnit)))
    return whole;
  header.remove_prefix(kUnit.size());
  const size_t dash = header.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view from = Trimmed(header.substr(0, dash)), to = Trimmed(header.substr(dash + 1));
  const std::optional<int64_t> first = Number(from), last = Number(to);
  if (from.empty() && last)  // the last N bytes
    return *last == 0 ? ByteRange{ByteRange::Kind::kImpossible, 0, 0}
                      : Part(size - std::min(*last, size), size - 1, size);
  if (!first || (!to.empty() && !last) || (last && *last < *first)) return whole;
  return Part(*first, last.value_or(kMost), size);
}

}  // namespace mtrun::web
