// Ends the workers of an ordinary program when the lease of its node does, even while the agent is stopped: a
// timer that the agent sets and its guardian watches (guardian.h).
#pragma once

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"

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

 private:
  explicit LeaseAlarm(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace mtrun::launcher
