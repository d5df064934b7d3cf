#include "base/port_range.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/string_view.h"

namespace mtrun {
namespace {

constexpr int kMaxPort = 65535;

bool ReadPort(absl::string_view text, int* port) {
  return absl::SimpleAtoi(text, port) && *port >= 1 && *port <= kMaxPort;
}

}  // namespace

absl::StatusOr<PortRange> ParsePortRange(std::string_view text) {
  PortRange range;
  if (text.empty()) return range;
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(View(text), absl::MaxSplits('-', 1));
  const bool one = text.find('-') == std::string_view::npos;
  if (!ReadPort(ends.first, &range.low) || !ReadPort(one ? ends.first : ends.second, &range.high) ||
      range.high < range.low) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", View(text), "\" is not a range of ports: give LOW-HIGH, both from 1 to ", kMaxPort,
                     ", for example 29500-29600"));
  }
  return range;
}

std::string ToText(const PortRange& range) {
  if (range.any()) return "";
  return range.low == range.high ? absl::StrCat(range.low) : absl::StrCat(range.low, "-", range.high);
}

}  // namespace mtrun
