// Waits for a host name to resolve, for example while a cluster's DNS learns of its nodes. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mtrun::launcher {

class NameWait {
 public:
  static constexpr Duration kSayEvery = std::chrono::seconds(30);

  NameWait(Duration timeout, TimePoint now) : patience_(timeout), began_(now), say_(now) {}

  /// Returns a text to log ("": none), at once and every 30 s; after `timeout` the error `why` with a hint.
  absl::StatusOr<std::string> OnFailure(const absl::Status& why, TimePoint now);

 private:
  const Duration patience_;
  const TimePoint began_;
  TimePoint say_;
};

}  // namespace mtrun::launcher
