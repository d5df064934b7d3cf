#include "launcher/workers/lease_alarm.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/status_macros.h"

namespace mtrun::launcher {

absl::StatusOr<LeaseAlarm> LeaseAlarm::Make() {
  UniqueFd fd(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "make the timer of the node's lease");
  MT_ASSIGN_OR_RETURN(LeaseKills kills, LeaseKills::Make());
  return LeaseAlarm(std::move(fd), std::move(kills));
}

void LeaseAlarm::Set(std::optional<Duration> at) const {
  if (!fd_.valid()) return;
  constexpr int64_t kSecond = 1'000'000'000;
  itimerspec when = {};  // zero disarms
  if (at) {
    const int64_t ns = std::max<int64_t>(at->count(), 1);
    when.it_value = {static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  }
  timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

bool LeaseAlarm::TakeRing() const {
  uint64_t rings = 0;
  return fd_.valid() && read(fd_.get(), &rings, sizeof rings) == sizeof rings;
}

}  // namespace mtrun::launcher
