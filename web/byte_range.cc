#include "web/byte_range.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/string_view.h"

namespace mtrun::web {
namespace {

constexpr absl::string_view kUnit = "bytes=";
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

/// Parses digits only; clamps to the largest int64.
std::optional<int64_t> Number(absl::string_view text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) return std::nullopt;
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : kMost;
}

ByteRange Part(int64_t first, int64_t last, int64_t size) {
  if (first >= size) return {ByteRange::Kind::kImpossible, 0, 0};
  return {ByteRange::Kind::kPart, first, std::min(last, size - 1) - first + 1};
}

}  // namespace

ByteRange SelectRange(std::string_view header, int64_t size) {
  const ByteRange whole{ByteRange::Kind::kWhole, 0, size};
  const absl::string_view text = absl::StripAsciiWhitespace(View(header));
  const size_t dash = text.find('-');
  if (!absl::StartsWithIgnoreCase(text, kUnit) || dash == absl::string_view::npos) return whole;
  const absl::string_view from = absl::StripAsciiWhitespace(text.substr(kUnit.size(), dash - kUnit.size())),
                          to = absl::StripAsciiWhitespace(text.substr(dash + 1));
  const std::optional<int64_t> first = Number(from), last = Number(to);
  if (from.empty() && last)  // the last N bytes
    return *last == 0 ? ByteRange{ByteRange::Kind::kImpossible, 0, 0}
                      : Part(size - std::min(*last, size), size - 1, size);
  if (!first || (!to.empty() && !last) || (last && *last < *first)) return whole;
  return Part(*first, last.value_or(kMost), size);
}

}  // namespace mtrun::web
