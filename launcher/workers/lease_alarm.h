// Ends the workers of an ordinary program when the lease of its node does, even while the agent is stopped: a
// timer that the agent sets and its guardian watches (guardian.h), which says whom it has killed.
#pragma once

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "launcher/workers/lease_kills.h"

namespace mtrun::launcher {

class LeaseAlarm {
 public:
  /// To be made before the guardian is forked. No program that is started holds it.
  static absl::StatusOr<LeaseAlarm> Make();
  LeaseAlarm() = default;  // none: it never rings

  /// Rings at `at` (BootNow()); nothing: never. Any thread of any process that holds it.
  void Set(std::optional<Duration> at) const;
  int fd() const { return fd_.get(); }  // readable while it rings; -1 for none
  /// True once for each time that it rings.
  bool TakeRing() const;
  /// What was killed because it rang.
  const LeaseKills& kills() const { return kills_; }

 private:
  LeaseAlarm(UniqueFd fd, LeaseKills kills) : fd_(std::move(fd)), kills_(std::move(kills)) {}

  UniqueFd fd_;
  LeaseKills kills_;
};

}  // namespace mtrun::launcher
