// Time as the pure cores see it: points on one machine's monotonic clock. Clocks of different nodes are never
// compared.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace mtrun {

using Duration = std::chrono::nanoseconds;
/// A point of this machine's monotonic clock; also the time argument of every pure core (tests count from
/// zero).
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

TimePoint MonotonicNow();
/// Time since this machine booted, suspended or not (CLOCK_BOOTTIME): the same in all its processes.
Duration BootNow();

/// The earlier of two points of which either may be missing; nothing when both are.
std::optional<TimePoint> Earlier(std::optional<TimePoint> a, std::optional<TimePoint> b);

/// Seconds, with fractions, as settings and messages carry them.
Duration FromSeconds(double seconds);
double ToSeconds(Duration duration);

/// Nanoseconds since 1970: wall-clock time for people, logs and the blame only; no other decision reads it.
int64_t WallClockNs();
/// "2026-11-21T14:37:44.123Z".
std::string WallClockText(int64_t wall_clock_ns = WallClockNs());

/// "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min": for people.
std::string HumanDuration(Duration duration);

}  // namespace mtrun
