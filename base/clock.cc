#include "base/clock.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "absl/strings/str_format.h"

namespace mtrun {

TimePoint MonotonicNow() { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }

Duration BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::optional<TimePoint> Earlier(std::optional<TimePoint> a, std::optional<TimePoint> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

/// Clamps to the range of Duration, 292 years either way; NaN becomes zero.
Duration FromSeconds(double seconds) {
  constexpr double kBeyond = 0x1p63;  // the first number of nanoseconds that does not fit
  const double nanoseconds = seconds * 1e9;
  if (std::isnan(nanoseconds)) return Duration::zero();
  if (nanoseconds >= kBeyond) return Duration::max();
  if (nanoseconds <= -kBeyond) return Duration::min();
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

double ToSeconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

int64_t WallClockNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string WallClockText(int64_t wall_clock_ns) {
  const time_t seconds = wall_clock_ns / 1'000'000'000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                         static_cast<int>(wall_clock_ns % 1'000'000'000 / 1'000'000));
}

std::string HumanDuration(Duration duration) {
  const double seconds = ToSeconds(duration);
  if (seconds < 1) return absl::StrFormat("%.0f ms", seconds * 1000);
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole % 3600 / 60);
}

}  // namespace mtrun
