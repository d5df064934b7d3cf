// The service's reasons why this node waits for a generation, as lines for the log. The first formation shows
// each at once. Later a wait is usually over within milliseconds, so only one that lasts is shown.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"

namespace mtrun::launcher {

class WaitNews {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(2);

  /// Takes a reason. Returns the level at which to log it now; `first`: this node has been in no generation
  /// yet.
  log::Level OnReason(const std::string& why, bool first, TimePoint now);
  /// Returns the reason if the wait has lasted, once.
  std::optional<std::string> Take(TimePoint now);
  /// The wait is over.
  void Clear() { due_.reset(); }

  /// Returns when Take has a line.
  std::optional<TimePoint> deadline() const { return due_; }
  bool operator==(const WaitNews&) const = default;

 private:
  std::string why_;
  std::optional<TimePoint> due_;
};

}  // namespace mtrun::launcher
