// What a worker does where it would commit something (a step, an evaluation, a checkpoint): while the lease
// of its node is over another generation may have formed without it, so it keeps all that it has and commits
// nothing. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::trainers {

/// Why something is not committed, for people.
inline constexpr std::string_view kNoServiceAnswers =
    "no rendezvous service has answered within fence_timeout";

class LeaseHold {
 public:
  /// What a worker finds when it looks.
  struct Look {
    bool over = false;             // the lease of its node
    absl::Status membership = {};  // OK while it lasts, else what aborts its step
    bool leaves = false;           // it is told to go
  };
  enum class Action {
    kCommit,
    kHold,    // keeps everything and looks again
    kGiveUp,  // what would be committed is aborted
  };
  struct Decision {
    Action action = Action::kCommit;
    absl::Status why = {};  // of kGiveUp
    std::string news = {};  // for the log; "" where there are none
    bool operator==(const Decision&) const = default;
  };

  /// One that is told to go holds for `patience` from then on.
  explicit LeaseHold(Duration patience) : patience_(patience) {}

  /// Before each commit, and again while it holds. `what` would be committed: "step 7".
  Decision Next(std::string_view what, const Look& look, TimePoint now);
  bool holds() const { return since_.has_value(); }

 private:
  Decision GiveUp(const absl::Status& why);

  const Duration patience_;
  std::optional<TimePoint> since_;  // while it holds
  std::optional<TimePoint> told_to_go_;
};

}  // namespace mtrun::trainers
