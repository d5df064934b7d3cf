// The ports on which a job may listen, where a firewall lets few through: mtrun's --port_range, which its
// workers get as MTRUN_PORT_RANGE. A value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace mtrun {

/// From low to high, both included. {0, 0}: any port that the kernel gives out.
struct PortRange {
  int low = 0, high = 0;
  bool any() const { return low == 0; }
  int size() const { return high - low + 1; }
  bool Contains(int port) const { return !any() && low <= port && port <= high; }
  bool operator==(const PortRange&) const = default;
};

constexpr char kPortRangeVariable[] = "MTRUN_PORT_RANGE";

/// "29500-29600" or one port; "" is any. kInvalidArgument says what is wrong with another text.
absl::StatusOr<PortRange> ParsePortRange(std::string_view text);
/// What ParsePortRange reads.
std::string ToText(const PortRange& range);

/// The first socket that `open(port)` makes. Begins anywhere in the range, so that programs which start
/// together seldom ask for the same port. The error of the last port, and the range, when there is none.
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
