// Kills the workers of an ordinary program when their node's lease ends, even if the agent is suspended: a
// timer that the agent sets and its guardian watches (guardian.h). Records which workers were killed.
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
  /// Call before the guardian is forked. Programs that are started do not inherit it.
  static absl::StatusOr<LeaseAlarm> Make();
  LeaseAlarm() = default;  // no alarm: never rings

  /// Makes it ring at `at` (BootNow()); nullopt: never. Any thread of any process that holds it.
  void Set(std::optional<Duration> at) const;
  int fd() const { return fd_.get(); }  // readable while it rings; -1 for none
  /// Returns true once for each ring.
  bool TakeRing() const;
  /// Workers that were killed because it rang.
  const LeaseKills& kills() const { return kills_; }

 private:
  LeaseAlarm(UniqueFd fd, LeaseKills kills) : fd_(std::move(fd)), kills_(std::move(kills)) {}

  UniqueFd fd_;
  LeaseKills kills_;
};

}  // namespace mtrun::launcher
