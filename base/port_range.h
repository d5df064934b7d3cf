// The ports on which a job may listen behind a firewall: --port_range, MTRUN_PORT_RANGE for workers. A value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace mtrun {

/// Ports from low to high, inclusive. {0, 0} means any port that the kernel assigns.
struct PortRange {
  int low = 0, high = 0;
  bool any() const { return low == 0; }
  int size() const { return high - low + 1; }
  bool Contains(int port) const { return !any() && low <= port && port <= high; }
  bool operator==(const PortRange&) const = default;
};

constexpr char kPortRangeVariable[] = "MTRUN_PORT_RANGE";

/// Parses "29500-29600" or one port; "" means any. kInvalidArgument says what is wrong with the text.
absl::StatusOr<PortRange> ParsePortRange(std::string_view text);
/// Returns the text that ParsePortRange reads.
std::string ToText(const PortRange& range);

/// Returns the first socket that `open(port)` makes. Starts at a random port of the range, so that programs
/// started together seldom collide. If no port works, returns the error of the last one, with the range.
template <typename Open>
auto OpenWithin(const PortRange& range, uint64_t random, Open open) -> decltype(open(0)) {
  if (range.any()) return open(0);
  const int from = static_cast<int>(random % static_cast<uint64_t>(range.size()));
  absl::Status last;
  for (int i = 0; i < range.size(); ++i) {
    auto opened = open(range.low + (from + i) % range.size());
    if (opened.ok()) return opened;
    last = opened.status();
  }
  return absl::Status(
      last.code(), absl::StrCat("no port of ", ToText(range), " (--port_range) is free: ", last.message()));
}

}  // namespace mtrun
