// Decides if a worker may commit a step, an evaluation or a checkpoint. While its node's lease is over,
// another generation may have formed without it: it keeps everything and commits nothing. A value; time is an
// argument.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mtrun::trainers {

/// The reason for not committing, for messages.
inline constexpr std::string_view kNoServiceAnswers =
    "no rendezvous service has answered within fence_timeout";

class LeaseHold {
 public:
  /// The state that a worker finds when it checks.
  struct Look {
    bool over = false;             // its node's lease is over
    absl::Status membership = {};  // OK while it lasts, otherwise the error that aborts its step
    bool leaves = false;           // the worker is drained
  };
  enum class Action {
    kCommit,
    kHold,    // keep everything and check again
    kGiveUp,  // abort instead of committing
  };
  struct Decision {
    Action action = Action::kCommit;
    absl::Status why = {};  // reason of kGiveUp
    std::string news = {};  // message for the log; "" if there is none
    bool operator==(const Decision&) const = default;
  };

  /// A drained worker holds for at most `timeout` after the request.
  explicit LeaseHold(Duration timeout) : patience_(timeout) {}

  /// Returns the decision before a commit, named `what` ("step 7"); call it again while the worker holds.
  Decision Next(std::string_view what, const Look& look, TimePoint now);
  bool holds() const { return since_.has_value(); }

 private:
  Decision GiveUp(const absl::Status& why);

  const Duration patience_;
  std::optional<TimePoint> since_;  // start of the hold
  std::optional<TimePoint> told_to_go_;
};

}  // namespace mtrun::trainers
