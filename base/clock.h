// Time in the pure cores: points on one machine's monotonic clock, never compared between nodes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace mtrun {

using Duration = std::chrono::nanoseconds;
/// A point on this machine's monotonic clock. Pure cores take it as an argument; tests count from zero.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

TimePoint MonotonicNow();
/// Returns the time since boot, suspended time included (CLOCK_BOOTTIME); the same in all processes.
Duration BootNow();

/// Returns the earlier of two optional points, or nothing if both are missing.
std::optional<TimePoint> Earlier(std::optional<TimePoint> a, std::optional<TimePoint> b);

/// Converts from seconds with fractions, the unit of settings and messages.
Duration FromSeconds(double seconds);
double ToSeconds(Duration duration);

/// Returns nanoseconds since 1970. Wall-clock time is for people, logs and the blame only.
int64_t WallClockNs();
/// Formats a time as "2026-11-21T14:37:44.123Z".
std::string WallClockText(int64_t wall_clock_ns = WallClockNs());

/// Formats a duration for people: "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min".
std::string HumanDuration(Duration duration);

}  // namespace mtrun
