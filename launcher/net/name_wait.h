// Waiting for a host's name to be known, as where a cluster's DNS comes up with its nodes. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mtrun::launcher {

class NameWait {
 public:
  static constexpr Duration kSayEvery = std::chrono::seconds(30);

  NameWait(Duration patience, TimePoint now) : patience_(patience), began_(now), say_(now) {}

  /// What to say, "" for nothing: at once, then every half a minute. An error when the patience is over:
  /// `why` with what may be wrong.
  absl::StatusOr<std::string> OnFailure(const absl::Status& why, TimePoint now);

 private:
  const Duration patience_;
  const TimePoint began_;
  TimePoint say_;
};

}  // namespace mtrun::launcher
