// Counts worker failures in a row, with no progress between them: restarts that may not help. The pauses
// before the next generation grow, so that the budget outlasts what is transient, and failures that are all
// the same are named. A value; not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class FailureStreak {
 public:
  static constexpr int kNamedFrom = 3;  // equal failures

  /// Notes the failure that ends a generation. `progressed`: that generation made progress.
  void OnFailure(const WorkerFailure& failure, bool progressed, TimePoint now);

  /// Returns when the pause before the next generation ends; empty if there is none.
  std::optional<TimePoint> PauseEnds(TimePoint now) const;
  /// Returns the text shown to people during the pause.
  std::string PauseText() const;
  /// Adds the equal failures to the cause of a restart, if this is the third one.
  void Name(WorkerDied* died) const;
  /// Returns "all 11 failures were the same" of `all` failures, "" if there were few.
  std::string Summary(int all) const;

  /// Returns "" if nothing has failed. Times are relative to `now`.
  std::string Describe(TimePoint now) const;
  bool operator==(const FailureStreak&) const = default;

 private:
  int failures_ = 0;  // in a row; those that the program did not cause do not count
  int equal_ = 0;     // in a row
  std::string kind_;  // of the last failure
  std::string line_;  // its error
  std::optional<TimePoint> pause_ends_;
};

}  // namespace mtrun::rendezvous
